"""Raw cumulative scrapes into increments of windows: one sample a window, or a flag that says why there is none.

Counters are never extrapolated to a window's ends: what is taken is the last scrape at or before each end, sum and
count from the same scrape. A mean over a slightly shifted window is right; one over half of a step is not.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from specdecode_operator.gates.samples import Sample

FEWEST_SCRAPES: Final = 3
LATE: Final = 1.5
"""Scrape intervals by which the last scrape may lie before a window's end."""

START_TOLERANCE: Final = 2.0


@dataclass(frozen=True)
class Scrape:
    """One series at one time."""

    time: float
    count: float
    sum: float
    start_time: float
    """When the process had started that was scraped."""
    buckets: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Track:
    """A series of one pod, its scrapes in their order."""

    revision: str
    pod_uid: str
    node: str
    metric: str
    step: str
    batch: str
    scrapes: tuple[Scrape, ...]


@dataclass(frozen=True)
class Grid:
    """The windows, in seconds."""

    start: float
    seconds: float
    count: int
    scrape_interval: float

    def ends(self, window: int) -> tuple[float, float]:
        """Start and end of a window."""
        return self.start + window * self.seconds, self.start + (window + 1) * self.seconds


def increments(track: Track, grid: Grid, *, fewest: int = FEWEST_SCRAPES) -> Iterator[Sample]:
    """One sample for each window of the grid."""
    times = [scrape.time for scrape in track.scrapes]
    ordered = all(before < after for before, after in pairwise(times))
    for window in range(grid.count):
        start, end = grid.ends(window)
        first, last = (bisect_right(times, time) - 1 for time in (start, end)) if ordered else (-1, -1)
        inside = track.scrapes[max(first, 0) : last + 1]
        flag = "" if ordered else "clockJump"
        flag = flag or _missing(grid, start, end, inside if first >= 0 else (), fewest) or _broken(inside)
        yield _sample(track, start, end, inside, flag)


def _missing(grid: Grid, start: float, end: float, inside: tuple[Scrape, ...], fewest: int) -> str:
    """`gap` if the scrapes don't reach to both ends, or are too few to be a window's."""
    late = LATE * grid.scrape_interval
    there = len(inside) > fewest - 1 and start - inside[0].time <= late and end - inside[-1].time <= late
    return "" if there else "gap"


def _broken(inside: tuple[Scrape, ...]) -> str:
    """What happened between the scrapes that makes their difference no increment."""
    if not all(math.isfinite(value) for scrape in inside for value in _values(scrape)):
        return "notFinite"
    if any(scrape.start_time > scrape.time for scrape in inside):
        return "clockJump"
    if any(abs(after.start_time - before.start_time) > START_TOLERANCE for before, after in pairwise(inside)):
        return "restart"
    for before, after in pairwise(inside):
        if set(before.buckets or ()) != set(after.buckets or ()):
            return "layout"
        if any(new < old for old, new in zip(_values(before), _values(after), strict=True)):
            return "reset"
    return ""


def _values(scrape: Scrape) -> tuple[float, ...]:
    buckets = scrape.buckets or {}
    return (scrape.count, scrape.sum, *(buckets[bound] for bound in sorted(buckets)))


def _sample(track: Track, start: float, end: float, inside: tuple[Scrape, ...], flag: str) -> Sample:
    whole = bool(inside) and not flag
    first, last = (inside[0], inside[-1]) if whole else (None, None)
    buckets = None
    if first and last and first.buckets is not None and last.buckets is not None:
        buckets = {bound: last.buckets[bound] - first.buckets[bound] for bound in last.buckets}
    return Sample(
        window_start=start,
        window_end=end,
        revision=track.revision,
        pod_uid=track.pod_uid,
        node=track.node,
        start_time=max(inside[-1].start_time, 0.0) if inside and math.isfinite(inside[-1].start_time) else 0.0,
        metric=track.metric,
        step=track.step,
        batch=track.batch,
        count=last.count - first.count if first and last else 0.0,
        sum=last.sum - first.sum if first and last else 0.0,
        buckets=buckets,
        flags=(flag,) if flag else (),
    )
