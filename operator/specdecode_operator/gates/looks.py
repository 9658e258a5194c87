"""How much error each look may spend, so that looking after every window costs no wrong decision.

Spending by planned time (Lan and DeMets 1983), in the shape of O'Brien and Fleming (1979): next to nothing early, most
of it at the end. A look that is missed leaves its share unspent.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from specdecode_operator.gates.arrays import Floats
from specdecode_operator.gates.distributions import normal_quantile, normal_tail, t_quantile

_DEPTH: Final = 7.0
"""How far from zero, in standard deviations, the path's density is followed."""

_NODES: Final = 20
"""Gauss-Legendre nodes for each root of the number of looks: the kernel is as wide as one look's step."""

_WORTHLESS: Final = 1e-9
"""A look whose spent error would be below this decides nothing: the integration is not exact enough there."""


def spent(fraction: float, alpha: float) -> float:
    """One-sided error spent by the time that `fraction` of the planned windows has passed.

    2 (1 - Phi(z_{1 - alpha/2} / sqrt(fraction))): Lan and DeMets 1983, equation for alpha_1*.
    """
    return 2 * normal_tail(normal_quantile(alpha / 2) / math.sqrt(fraction))


@lru_cache(maxsize=256)
def bounds(alpha: float, first: int, planned: int) -> tuple[float, ...]:
    """Upper bounds in standard normal units of the looks after windows `first` to `planned`, one a window.

    The path of the standardized sum under no effect is a Brownian motion at times window/planned; each bound is where
    the error newly spent is what the path, not stopped before, crosses it with. Recursion by numerical integration:
    Armitage, McPherson and Rowe 1969.
    """
    return sequential_bounds(alpha, tuple(window / planned for window in range(first, planned + 1)))


@lru_cache(maxsize=8)
def _quadrature(size: int) -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(size)


def sequential_bounds(alpha: float, fractions: tuple[float, ...]) -> tuple[float, ...]:
    """As `bounds`, for looks at any rising fractions of the planned time."""
    nodes, node_weights = _quadrature(int(_NODES * math.sqrt(max(len(fractions), 20))))
    found: list[float] = []
    places: Floats = np.zeros(1)
    masses: Floats = np.ones(1)
    before_time, before_spent = 0.0, 0.0
    for time in fractions:
        step = math.sqrt(time - before_time)
        extra = spent(time, alpha) - before_spent
        top = math.inf if extra < _WORTHLESS else _bound(places, masses, step, extra)
        found.append(top / math.sqrt(time))
        low, high = -_DEPTH * math.sqrt(time), min(top, _DEPTH * math.sqrt(time))
        here = low + (high - low) * (nodes + 1) / 2
        kernel = np.exp(-0.5 * ((here[:, None] - places[None, :]) / step) ** 2) / (step * math.sqrt(2 * math.pi))
        masses = (kernel @ masses) * node_weights * (high - low) / 2
        places, before_time = here, time
        before_spent += extra if math.isfinite(top) else 0.0
    return tuple(found)


def _bound(places: Floats, masses: Floats, step: float, extra: float) -> float:
    """Where a path that stands at `places` with `masses` crosses with probability `extra` after one more step.

    The logarithm of that probability falls and is concave in the bound, since a truncated Brownian path's density stays
    log-concave (Prekopa 1973): Newton's method from the right comes down to the root without passing it.
    """
    bound = float(places.max()) + 6.5 * step
    for _ in range(100):
        away = (bound - places) / step
        near = away < 9
        crossing = float(masses[near] @ np.array([normal_tail(z) for z in away[near].tolist()]))
        density = float(masses @ np.exp(-0.5 * away**2)) / (step * math.sqrt(2 * math.pi))
        move = (math.log(crossing) - math.log(extra)) * crossing / density
        bound += move
        if abs(move) < 1e-10:
            break
    return bound


@lru_cache(maxsize=8192)
def t_bounds(alpha: float, first: int, planned: int, df: int) -> tuple[float, ...]:
    """The bounds as quantiles of Student's t: each with the nominal p of its normal bound (Jennison and Turnbull 2000,
    section 4.4, significance level approach)."""
    if df < 1:
        return (math.inf,) * (planned - first + 1)
    return tuple(math.inf if math.isinf(z) else t_quantile(normal_tail(z), df) for z in bounds(alpha, first, planned))
