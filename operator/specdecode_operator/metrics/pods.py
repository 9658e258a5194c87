"""What the scrapes say of each pod beside its measurements: when it answered, which process it was, what it ran."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.metrics.answer import Point, Series
from specdecode_operator.metrics.query import UP

LATEST: Final = 1e11
"""A later time is no time."""


@dataclass(frozen=True)
class Info:
    """What an engine says of itself, at one scrape."""

    time: float
    manifest_digest: str
    sample_every: int | None


@dataclass(frozen=True)
class Pod:
    """One pod, by its UID."""

    scrapes: tuple[Point, ...] = ()
    """(time, up), in order: 0 where the pod didn't answer."""
    starts: Mapping[float, float] = field(default_factory=dict)
    """When the process had started that was scraped at a time, in order of the scrapes."""
    infos: tuple[Info, ...] = ()
    requests: Mapping[float, float] = field(default_factory=dict)
    """Requests finished in the window that starts then."""

    @property
    def times(self) -> tuple[float, ...]:
        """When it was asked, in order."""
        return tuple(time for time, _ in self.scrapes)

    def up(self, since: float, until: float) -> dict[float, float]:
        """Whether it answered, by each time within that it was asked."""
        return {time: value for time, value in self.scrapes if since < time <= until}

    def start_at(self, time: float) -> float:
        """Start of the process that was last scraped by then, else of the first one; 0 if nothing ever said."""
        times = tuple(self.starts)
        return self.starts[times[max(bisect_right(times, time) - 1, 0)]] if times else 0.0

    def digests(self, since: float, until: float) -> frozenset[str]:
        """Manifest digests that were attested within."""
        return frozenset(info.manifest_digest for info in self._infos(since, until) if info.manifest_digest)

    def sampling(self, since: float, until: float) -> frozenset[int]:
        """Each how many steps one was sampled within."""
        return frozenset(info.sample_every for info in self._infos(since, until) if info.sample_every is not None)

    def _infos(self, since: float, until: float) -> tuple[Info, ...]:
        return tuple(info for info in self.infos if since < info.time <= until)


def pods(series: Iterable[Series]) -> dict[str, Pod]:
    """Every pod that the series of `query.IDENTITY` are of."""
    by_pod: dict[str, list[Series]] = {}
    for one in series:
        by_pod.setdefault(one.labels.get("pod_uid", ""), []).append(one)
    return {uid: _pod(found) for uid, found in by_pod.items()}


def _pod(series: list[Series]) -> Pod:
    by_name: dict[str, list[Series]] = {}
    for one in series:
        by_name.setdefault(one.name, []).append(one)
    # One of the two throughout: our own is the worker's, which starts some time after its server.
    started = by_name.get(names.METRIC_START) or by_name.get(names.METRIC_OWN_START) or []
    infos = by_name.get(names.METRIC_ENGINE_INFO, [])
    return Pod(
        scrapes=tuple(sorted(point for one in by_name.get(UP, ()) for point in one.points)),
        starts=_starts(point for one in started for point in one.points),
        infos=tuple(_info(one, time) for one in infos for time, _ in one.points),
    )


def _starts(points: Iterable[Point]) -> dict[float, float]:
    """By time of the scrape; of several processes behind one port the youngest, since its counters are the youngest.

    0 is none: our own is 0 until the worker has said when it began.
    """
    found: dict[float, float] = {}
    for time, start in sorted(points):
        if math.isfinite(start) and 0 < start < LATEST:
            found[time] = max(start, found.get(time, start))
    return found


def _info(series: Series, time: float) -> Info:
    every = series.labels.get("sample_every", "")
    return Info(time, series.labels.get("manifest_digest", ""), int(every) if every.isdecimal() else None)
