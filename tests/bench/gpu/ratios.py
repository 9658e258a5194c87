"""Pure: how many times as long or as much one arm takes as another, and how sure that is.

Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13: percentile intervals, and resampling
in two stages where values come in groups.  Engines that are started again differ for as long as they live, so rounds
are drawn first, then the sweeps within each.  From one round nothing is known of that: its interval is of this start
alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Ratio:
    """A geometric mean over sweeps, with its 95% interval; without one below two sweeps."""

    ratio: float
    interval: tuple[float, float] | None
    sweeps: int
    rounds: int


def ratio(logs: Mapping[int, Sequence[float]], *, seed: int = 1) -> Ratio | None:
    """From each round's ln ratios, one a sweep.  None without any.

    Rounds weigh as their sweeps count, in the estimate and in each draw.
    """
    groups = [np.asarray(values) for values in logs.values() if len(values)]
    if not groups:
        return None
    every = np.concatenate(groups)
    found = float(np.exp(every.mean()))
    if len(every) < 2:
        return Ratio(found, None, len(every), len(groups))
    rng = np.random.default_rng(seed)
    low, high = np.exp(np.quantile(_draws(groups, rng), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
    return Ratio(found, (float(low), float(high)), len(every), len(groups))


def _draws(groups: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Means of DRAWS bootstrap samples: rounds with replacement, then of each its sweeps."""
    sums, counts = np.zeros(DRAWS), np.zeros(DRAWS)
    for chosen in rng.integers(len(groups), size=(len(groups), DRAWS)):
        for at, values in enumerate(groups):
            draws = np.flatnonzero(chosen == at)
            sums[draws] += rng.choice(values, (len(draws), len(values))).sum(axis=1)
            counts[draws] += len(values)
    return sums / counts
