"""Tail probabilities and quantiles of Student's t and chi-square, and Fisher's exact test.

The normal distribution is the standard library's. These few functions stand here because SciPy would double the
operator's image; the tests compare them with SciPy, far into the tails that early looks need.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Final

NORMAL: Final = NormalDist()
_TINY: Final = 1e-300
_TERMS: Final = 500


def normal_tail(z: float) -> float:
    """P(Z > z), exact far into the tail, where 1 - cdf(z) is zero."""
    return 0.5 * math.erfc(z / math.sqrt(2))


@lru_cache(maxsize=65536)
def normal_quantile(tail: float) -> float:
    """z with P(Z > z) = `tail`, for 0 < tail < 1."""
    return -NORMAL.inv_cdf(tail)


def t_tail(t: float, df: float) -> float:
    """P(T > t) of Student's t with `df` degrees of freedom: DLMF 8.17, I_x(df/2, 1/2) / 2 at x = df / (df + t^2)."""
    if t < 0:
        return 1 - t_tail(-t, df)
    return 0.5 * incomplete_beta(df / 2, 0.5, df / (df + t * t))


@lru_cache(maxsize=65536)
def t_quantile(tail: float, df: float) -> float:
    """t with P(T > t) = `tail`, for 0 < tail <= 1/2; infinite for a tail of zero."""
    if not 0 <= tail <= 0.5:
        raise ValueError(f"a tail probability between 0 and 0.5 is wanted, found {tail}")
    if tail == 0:
        return math.inf
    if tail == 0.5:
        return 0.0
    high = 1.0
    while t_tail(high, df) > tail:
        high *= 4
        if high > 1e150:
            return math.inf
    return _falling_root(lambda t: math.log(t_tail(t, df) + _TINY) - math.log(tail), 0.0, high)


def chi2_cdf(x: float, df: float) -> float:
    """P(X <= x) of chi-square with `df` degrees of freedom: the lower gamma function's series, DLMF 8.7.1."""
    if x <= 0:
        return 0.0
    a, half = df / 2, x / 2
    if half > a + 40 * math.sqrt(a) + 200:
        return 1.0
    term = total = 1 / a
    order = a
    while term > total * 1e-16:
        order += 1
        term *= half / order
        total += term
    return min(1.0, total * math.exp(a * math.log(half) - half - math.lgamma(a)))


def chi2_quantile(lower: float, df: float) -> float:
    """x with P(X <= x) = `lower`, for 0 < lower < 1."""
    high = df
    while chi2_cdf(high, df) < lower:
        high *= 2
    return _falling_root(lambda x: lower - chi2_cdf(x, df), 0.0, high)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b): its continued fraction, DLMF 8.17.22, by Lentz's method."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x) - math.log(a)
    )
    return math.exp(log_front) / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)), numerators as DLMF 8.17.23 gives them; Lentz 1976 in Thompson and Barnett's form."""
    value, c, d = 1.0, 1.0, 0.0
    for place in range(1, _TERMS):
        m, odd = divmod(place, 2)
        numerator = (
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            if odd
            else m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        )
        d = 1 / (1 + numerator * d or _TINY)
        c = 1 + numerator / c or _TINY
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


@lru_cache(maxsize=65536)
def fisher_exact(lost_a: int, kept_a: int, lost_b: int, kept_b: int) -> float:
    """Two-sided p of Fisher's exact test (Fisher 1935): tables no likelier than the one seen, margins fixed."""
    lost, all_a, total = lost_a + lost_b, lost_a + kept_a, lost_a + kept_a + lost_b + kept_b
    if lost in (0, total) or all_a in (0, total):
        return 1.0

    def log_chance(x: int) -> float:
        return _log_choose(all_a, x) + _log_choose(total - all_a, lost - x) - _log_choose(total, lost)

    seen = log_chance(lost_a) + 1e-7
    tables = range(max(0, lost - (total - all_a)), min(lost, all_a) + 1)
    return min(1.0, math.fsum(math.exp(chance) for chance in map(log_chance, tables) if chance <= seen))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _falling_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses zero between `low` and `high`: bisection, to the last digits of a double."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high) or high - low <= 1e-14 * high:
            break
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
