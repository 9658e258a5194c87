"""Series into samples: joined by pod UID, differenced by process, and what is wrong with a window told as its flag."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.windows import LATE, Scrape, Track, increments
from specdecode_operator.metrics.answer import Point, Series
from specdecode_operator.metrics.errors import TooMuch
from specdecode_operator.metrics.pods import Pod
from specdecode_operator.metrics.query import Metric, Question

SUMMED: Final = ("model_name", "engine", "position", "reason", "finished_reason")
"""Labels of the engine's own whose series are parts of one number: the ranks of a pod, the reasons of a count."""

BOUND: Final = "le"
MAX_BOUNDS: Final = 64

_UNKNOWN: Final = Pod()
_Claim = tuple[tuple[tuple[str, str], ...], int]


@dataclass(frozen=True)
class Place:
    """What one number is of. Two series there, and nobody knows which is true."""

    uid: str
    revision: str
    node: str
    step: str
    batch: str


@dataclass(frozen=True)
class Part:
    """One series of a place's number: its name, its bucket, and the labels that are summed over."""

    name: str
    bound: str
    rank: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """The series that one scraped target, read by one server, has of a place."""

    metric: Metric
    labels: Mapping[str, str]
    parts: Mapping[Part, tuple[Point, ...]]

    @cached_property
    def times(self) -> tuple[float, ...]:
        """When any of it was scraped, in order."""
        return tuple(sorted({time for points in self.parts.values() for time, _ in points}))

    @cached_property
    def whole(self) -> frozenset[float]:
        """When all of it was scraped: each series of the metric for each rank, all with the same buckets."""
        ranks: dict[tuple[str, ...], set[tuple[str, str]]] = {}
        for part in self.parts:
            ranks.setdefault(part.rank, set()).add((part.name, part.bound))
        first, *others = ranks.values()
        if {name for name, _ in first} != set(self.metric.series) or any(other != first for other in others):
            return frozenset()
        times = ({time for time, _ in points} for points in self.parts.values())
        return frozenset(set.intersection(*times))

    def within(self, since: float, until: float) -> tuple[float, ...]:
        """The times of a window."""
        return self.times[bisect_right(self.times, since) : bisect_right(self.times, until)]


def samples(question: Question, metric: Metric, series: Iterable[Series], pods: Mapping[str, Pod]) -> Iterator[Sample]:
    """The metric's samples, one for each pod, window, step and batch bucket; of several claimants, one for each.

    Windows that were over before anything of the pod was scraped have none.

    Raises:
        TooMuch: a histogram has more buckets than a sample can hold.
    """
    for place, targets in _by_place(metric, series).items():
        pod = pods.get(place.uid, _UNKNOWN)
        read = [(target, list(increments(_track(place, target, pod), question.grid))) for target in targets]
        first = min(time for target in targets for time in (*target.times[:1], *pod.times[:1]))
        for window in range(question.grid.count):
            start, end = question.grid.ends(window)
            if first <= end:
                live = [each for each in read if each[0].within(start, end)] or read[:1]
                rivals = _overlap(target.within(start, end) for target, _ in live)
                for target, found in live if rivals else live[:1]:
                    yield _finished(question, found[window], target, pod, rivals=rivals)


def _overlap(claims: Iterable[tuple[float, ...]]) -> bool:
    """Whether two targets were scraped in the same part of a window. One that takes over from another is no rival."""
    return any(after[0] <= before[-1] for before, after in pairwise(sorted(claims)))


# --- Series together --------------------------------------------------------------------------------------------------


def _by_place(metric: Metric, series: Iterable[Series]) -> dict[Place, tuple[Target, ...]]:
    found: dict[Place, dict[_Claim, dict[Part, tuple[Point, ...]]]] = {}
    for one in series:
        if one.points:
            place, part, rest = _split(one.labels)
            claims = found.setdefault(place, {})
            # The same series a second time in one answer is another claimant too.
            again = sum(part in parts for claim, parts in claims.items() if claim[0] == rest)
            claims.setdefault((rest, again), {})[part] = one.points
    return {
        place: tuple(Target(metric, dict(rest), parts) for (rest, _), parts in claims.items())
        for place, claims in found.items()
    }


def _split(labels: Mapping[str, str]) -> tuple[Place, Part, tuple[tuple[str, str], ...]]:
    """Labels by what they tell apart: numbers, parts of one number, and claimants."""
    rest = dict(labels)
    place = Place(*(rest.pop(label, "") for label in ("pod_uid", "specdecode_revision", "node", "step", "batch")))
    part = Part(rest.pop("__name__", ""), rest.pop(BOUND, ""), tuple(rest.pop(label, "") for label in SUMMED))
    return place, part, tuple(sorted(rest.items()))


def _track(place: Place, target: Target, pod: Pod) -> Track:
    return Track(
        revision=place.revision,
        pod_uid=place.uid,
        node=place.node,
        metric=target.metric.name,
        step=place.step,
        batch=place.batch,
        scrapes=tuple(_scrapes(target, pod)),
    )


def _scrapes(target: Target, pod: Pod) -> Iterator[Scrape]:
    """Numbers of one scrape put together, ranks summed. A scrape that lacks a series, or a known process, is none."""
    tables = {part: dict(points) for part, points in target.parts.items()}
    bounds = sorted({part.bound for part in tables} - {""})
    if len(bounds) > MAX_BOUNDS:
        raise TooMuch(f"{target.metric.name} has {len(bounds)} buckets, and a sample holds at most {MAX_BOUNDS}")

    def total(time: float, name: str, bound: str = "") -> float:
        return sum(table[time] for part, table in tables.items() if (part.name, part.bound) == (name, bound))

    count, *others = target.metric.series
    for time in _order(target):
        if time in pod.starts and time in target.whole:
            yield Scrape(
                time=time,
                count=total(time, count),
                sum=total(time, others[0]) if others else 0.0,
                start_time=pod.starts[time],
                buckets={bound: total(time, others[1], bound) for bound in bounds} if bounds else None,
            )


def _order(target: Target) -> tuple[float, ...]:
    """Times as they came; those of a series out of order if there is one, so that it shows."""
    orders = [tuple(time for time, _ in points) for points in target.parts.values()]
    return next((times for times in orders if any(a >= b for a, b in pairwise(times))), orders[0])


# --- What a window is worth -------------------------------------------------------------------------------------------


def _finished(question: Question, sample: Sample, target: Target, pod: Pod, *, rivals: bool) -> Sample:
    """The sample with what the pod says of itself, and with all flags."""
    since = sample.window_start - LATE * question.grid.scrape_interval
    until = sample.window_end
    digests, sampling = pod.digests(since, until), pod.sampling(since, until)
    flags = [_gap(target, pod, since, until) if flag == "gap" else flag for flag in sample.flags]
    flags += ["identity"] if max(len(digests), len(sampling)) > 1 else []
    flags += ["duplicate"] if rivals else []
    flags += ["foreign"] if _foreign(question, sample, target) else []
    changes: dict[str, Any] = {
        "requests": pod.requests.get(sample.window_start),
        "manifest_digest": next(iter(digests)) if len(digests) == 1 else None,
        "sample_every": next(iter(sampling)) if len(sampling) == 1 else None,
        "flags": tuple(flags),
    }
    if flags:  # a broken window may hold no scrape to say which process it was; the pod's others do
        changes["start_time"] = pod.start_at(until)
    return sample.model_copy(update=changes)


def _gap(target: Target, pod: Pod, since: float, until: float) -> str:
    """Why scrapes are missing: the pod didn't answer, this series wasn't in its answer, its process is unknown, or
    nobody asked."""
    answers = pod.up(since, until)
    if 0.0 in answers.values():
        return "down"
    if answers.keys() - target.whole:
        return "stale"
    return "startUnknown" if set(target.within(since, until)) - pod.starts.keys() else "gap"


def _foreign(question: Question, sample: Sample, target: Target) -> bool:
    """Whether it is of a pod, an object or a revision that wasn't asked for."""
    return (
        (bool(question.pods) and sample.pod_uid not in question.pods)
        or (bool(question.revisions) and sample.revision not in question.revisions)
        or (target.labels.get("namespace"), target.labels.get("specdecode_name")) != (question.namespace, question.name)
    )
