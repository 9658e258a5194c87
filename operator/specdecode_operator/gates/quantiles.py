"""Quantiles from a histogram's cumulative buckets.

A bucket is as exact as it is wide: with a factor of 2.5 between bounds, a quantile's change is read wrong by up to
seven times itself. So means gate; quantiles do for wide margins, and for telling prompt lengths apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

Buckets = Mapping[str, float]


def added(many: Iterable[Buckets]) -> dict[str, float]:
    """Buckets of several series together."""
    total: dict[str, float] = {}
    for buckets in many:
        for bound, count in buckets.items():
            total[bound] = total.get(bound, 0.0) + count
    return total


def quantile(buckets: Buckets, share: float) -> float:
    """The value below which `share` of the observations lie, log-interpolated in its bucket.

    NaN without observations, where it lies beyond the last finite bound, or where the buckets are none.
    """
    try:
        ordered = sorted((float(bound), count) for bound, count in buckets.items())
    except ValueError:
        return math.nan
    counts = [count for _, count in ordered]
    if (
        not counts
        or not all(map(math.isfinite, counts))
        or counts != sorted(counts)
        or counts[0] < 0
        or counts[-1] <= 0
    ):
        return math.nan
    wanted, below, low = share * counts[-1], 0.0, 0.0
    for bound, count in ordered:
        if count >= wanted and count > below:
            return _between(low, bound, (wanted - below) / (count - below))
        below, low = count, bound
    return math.nan


def _between(low: float, high: float, part: float) -> float:
    if not math.isfinite(high):
        return math.nan
    return low * (high / low) ** part if low > 0 else high * part
