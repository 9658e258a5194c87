"""Samples sorted into arrays by pod and window, and what is wrong with them.

Identity first: a sample belongs to a pod by UID, to an arm by revision, to a window by the plan's grid, and there is
exactly one for each pod, window, metric, step and bucket. What breaks that is a fault of the whole run from its window
on; what makes a single window useless spends that window.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specdecode_operator.gates.arrays import Flags, Floats
from specdecode_operator.gates.course import Trays
from specdecode_operator.gates.estimate import Sides
from specdecode_operator.gates.plan import Arm, Baseline, Plan, Span
from specdecode_operator.gates.quantiles import quantile
from specdecode_operator.gates.rules import LARGEST
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.scores import log_means
from specdecode_operator.gates.verdict import Reason

GRID_TOLERANCE: Final = 0.01
"""Part of a window by which its ends may miss the plan's grid."""

START_TOLERANCE: Final = 2.0
"""Seconds by which a process's start time may move, as clocks are corrected, before it is another process."""

MAX_PODS: Final = 2048
MAX_BUCKETS: Final = 64
MAX_CELLS: Final = 8_000_000

CRASHED: Final = "crashed"


_GRAVITY: Final = {reason: place for place, reason in enumerate(Reason)}
"""Of several faults in one window the one is told that explains the others: an identity before what follows from it."""


@dataclass(frozen=True)
class Fault:
    """What makes the run unfit from a window on."""

    window: int
    reason: Reason
    detail: str


@dataclass(frozen=True)
class Pod:
    """A pod that samples came from."""

    uid: str
    revision: str
    node: str


@dataclass(frozen=True)
class Series:
    """One metric with one step label: [pods, windows, buckets]."""

    buckets: tuple[str, ...]
    counts: Floats
    sums: Floats
    histograms: Mapping[tuple[int, int, int], Mapping[str, float]]


@dataclass(frozen=True)
class Intake:
    """The samples of a run, in arrays."""

    plan: Plan
    elapsed: int
    """Windows that have passed."""
    pods: tuple[Pod, ...]
    """Stable ones first, each arm by UID, so that the order of samples changes nothing."""
    faults: tuple[Fault, ...]
    """The earliest first."""
    spent: NDArray[np.str_]
    """[pods, windows]: the flag that spends the window; empty if none."""
    requests: Floats
    """[pods, windows]: requests finished."""
    rows: Mapping[tuple[str, str], tuple[tuple[int, int, Sample], ...]] = field(repr=False)
    """(pod, window, sample) by metric and step."""
    started: Floats = field(repr=False)
    """[pods]: when the first process started that has a fit sample, in seconds since the epoch; else infinite."""
    gateway: Mapping[str, Floats] = field(repr=False)
    """[windows] by revision: what the gateway sent."""

    @cached_property
    def stable(self) -> Flags:
        """[pods]"""
        return np.array([pod.revision == self.plan.stable.revision for pod in self.pods], bool)

    @cached_property
    def sides(self) -> Sides:
        """Which pods are compared."""
        fresh = self.plan.fresh
        against = self.stable if fresh is None else self.stable & (self.started >= fresh.since)
        return Sides(self.stable, against)

    def series(self, metric: str, step: str, known: Iterable[str] = ()) -> Series:
        """Arrays of a metric; its buckets are the `known` ones, then others that were seen. Spent windows count 0."""
        rows = self.rows.get((metric, step), ())
        first = tuple(known)
        buckets = (*first, *sorted({row.batch for _, _, row in rows} - set(first)))
        place = {bucket: index for index, bucket in enumerate(buckets)}
        shape = (len(self.pods), self.elapsed, len(buckets))
        counts, sums = np.zeros(shape), np.zeros(shape)
        histograms: dict[tuple[int, int, int], Mapping[str, float]] = {}
        for pod, window, row in rows:
            cell = (pod, window, place[row.batch])
            if self.spent[pod, window]:
                continue
            counts[cell], sums[cell] = row.count, row.sum
            if row.buckets is not None:
                histograms[cell] = row.buckets
        return Series(buckets, counts, sums, histograms)

    def span(self, span: Span) -> tuple[Floats, Floats, Floats]:
        """ln of each cell's statistic, its count, and the buckets' weights."""
        series = self.series(span.metric, span.step, span.strata)
        values = log_means(series.sums, series.counts, span.min_count)
        if span.statistic != "mean":
            values = np.where(np.isfinite(values), _log_quantiles(series, float(span.statistic[1:]) / 100), np.nan)
        weights = np.array([span.strata.get(bucket, 0.0) for bucket in series.buckets])
        return values, series.counts, weights

    def trays(self, gate: str) -> Trays:
        """Baselines of the gate on each pod's tray; of one without a history, the fleet's middle and usual spread."""
        known = {tray.node: tray.baseline.get(gate, Baseline()) for tray in self.plan.trays}
        usual = Baseline(control_mad=float(np.median([each.control_mad for each in known.values()])))
        found = [known.get(pod.node, usual) for pod in self.pods]
        return Trays(
            mean=np.array([each.mean for each in found], float),
            control_mean=np.array([each.control_mean for each in found], float),
            control_median=np.array([each.control_median for each in found], float),
            control_mad=np.array([each.control_mad for each in found], float),
        )

    def missing(self, span: Span) -> Flags:
        """[pods, windows]: whether there is no sample of the span at all."""
        there = np.zeros((len(self.pods), self.elapsed), bool)
        for pod, window, _ in self.rows.get((span.metric, span.step), ()):
            there[pod, window] = True
        return ~there


def _log_quantiles(series: Series, share: float) -> Floats:
    values = np.full(series.counts.shape, np.nan)
    for cell, buckets in series.histograms.items():
        found = quantile(buckets, share)
        values[cell] = math.log(found) if found > 0 else math.nan
    return values


def take_in(plan: Plan, samples: Iterable[Sample], *, through: int | None = None, now: float | None = None) -> Intake:
    """Sort the samples of the first `through` windows (default: those there are samples of).

    `now` is the judge's time, if it has one: a window that ends later is a fault.
    """
    placed, faults = _on_grid(plan, samples, through, now)
    elapsed = (
        min(through, plan.windows.planned)
        if through is not None
        else 1 + max((window for window, _ in placed), default=-1)
    )
    ours = []
    for window, sample in placed:
        fault = _misplaced(plan, sample)
        if fault is None:
            ours.append((window, sample))
        else:
            faults.append(Fault(window, *fault))
    by_pod = [(window, sample) for window, sample in ours if not _of_gateway(plan, sample)]
    pods = _pods(plan, (sample for _, sample in by_pod))
    faults += _identity_faults(plan, by_pod)
    faults += _duplicates(ours)
    if elapsed * len(pods) * MAX_BUCKETS > MAX_CELLS * 16 or len(pods) > MAX_PODS:
        detail = f"{len(pods)} pods over {elapsed} windows are more than one run's"
        faults.append(Fault(0, Reason.FOREIGN_SERIES, detail))
        by_pod, pods = [], ()
    place = {pod.uid: index for index, pod in enumerate(pods)}
    spent = np.full((len(pods), elapsed), "", dtype="U32")
    requests = np.zeros((len(pods), elapsed))
    started = np.full(len(pods), np.inf)
    rows: defaultdict[tuple[str, str], list[tuple[int, int, Sample]]] = defaultdict(list)
    for window, sample in by_pod:
        pod = place[sample.pod_uid]
        rows[sample.metric, sample.step].append((pod, window, sample))
        flag = _spending(sample)
        spent[pod, window] = max(str(spent[pod, window]), flag)
        started[pod] = started[pod] if flag else min(started[pod], sample.start_time)
        if sample.requests is not None and 0 <= sample.requests <= LARGEST:
            requests[pod, window] = max(requests[pod, window], sample.requests)
    for pod, window in _restarts(place, by_pod):
        spent[pod, window] = "restart"
    return Intake(
        plan=plan,
        elapsed=elapsed,
        pods=pods,
        faults=tuple(sorted(faults, key=lambda fault: (fault.window, _GRAVITY[fault.reason], fault.detail))),
        spent=spent,
        requests=requests,
        rows={key: tuple(found) for key, found in rows.items()},
        started=started,
        gateway=_gateway(plan, ours, elapsed),
    )


def _on_grid(
    plan: Plan, samples: Iterable[Sample], through: int | None, now: float | None
) -> tuple[list[tuple[int, Sample]], list[Fault]]:
    """Each sample with its window. What lies before the first window (settling, history) is left out."""
    placed: list[tuple[int, Sample]] = []
    faults: list[Fault] = []
    seconds = plan.windows.seconds
    for sample in samples:
        exact = (sample.window_start - plan.windows.start) / seconds
        window = round(exact)
        if sample.window_end <= plan.windows.start or (through is not None and window >= through):
            continue
        length = (sample.window_end - sample.window_start) / seconds
        if abs(exact - window) > GRID_TOLERANCE or abs(length - 1) > GRID_TOLERANCE or window < 0:
            faults.append(Fault(max(window, 0), Reason.CLOCK_JUMP, f"{_who(sample)} has a window off the plan's grid"))
        elif window >= plan.windows.planned:
            faults.append(Fault(plan.windows.planned, Reason.OUTSIDE_PLAN, "there are samples after the planned end"))
        elif now is not None and sample.window_end > now:
            faults.append(Fault(window, Reason.FUTURE_SAMPLES, f"{_who(sample)} has a window that isn't over"))
        else:
            placed.append((window, sample))
    return placed, faults


def _who(sample: Sample) -> str:
    return f"{sample.metric} of pod {sample.pod_uid or '(gateway)'}"


def _of_gateway(plan: Plan, sample: Sample) -> bool:
    return sample.metric == plan.traffic.gateway_requests


def _misplaced(plan: Plan, sample: Sample) -> tuple[Reason, str] | None:
    """Whether the sample is of another run, revision, tray or engine than the plan's."""
    arms = {plan.stable.revision: plan.stable, plan.candidate.revision: plan.candidate}
    arm = arms.get(sample.revision)
    if arm is None:
        return Reason.FOREIGN_SERIES, f"{_who(sample)} is of revision {sample.revision}, which is not of this run"
    if _of_gateway(plan, sample):
        return None
    tray = next((tray for tray in plan.trays if tray.node == sample.node), None)
    role = "stable" if arm is plan.stable else "candidate"
    young = role == "candidate" or (plan.fresh is not None and sample.start_time >= plan.fresh.since)
    if tray is None and sample.pod_uid and sample.node and young and plan.unseen_trays:
        return _attested(arm, sample)
    if not sample.pod_uid or tray is None:
        return Reason.FOREIGN_SERIES, f"{_who(sample)} is on node {sample.node!r}, which is not in the plan"
    if tray.arm not in (None, role):
        return Reason.FOREIGN_SERIES, f"{_who(sample)} is of {role} on node {sample.node}, planned for {tray.arm}"
    return _attested(arm, sample)


def _attested(arm: Arm, sample: Sample) -> tuple[Reason, str] | None:
    if None not in (sample.manifest_digest, arm.manifest_digest) and sample.manifest_digest != arm.manifest_digest:
        return Reason.MANIFEST_MISMATCH, f"{_who(sample)} attests {sample.manifest_digest}, not {arm.manifest_digest}"
    return None


def _pods(plan: Plan, samples: Iterable[Sample]) -> tuple[Pod, ...]:
    found: dict[str, Pod] = {}
    for sample in samples:
        pod = Pod(sample.pod_uid, sample.revision, sample.node)
        found[pod.uid] = min(found.get(pod.uid, pod), pod, key=lambda each: (each.revision, each.node))
    return tuple(sorted(found.values(), key=lambda pod: (pod.revision != plan.stable.revision, pod.uid)))


def _identity_faults(plan: Plan, placed: Iterable[tuple[int, Sample]]) -> Iterator[Fault]:
    """One UID, one pod; one process for the candidate; the same sampling everywhere."""
    identities: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    starts: defaultdict[str, set[float]] = defaultdict(set)
    first_seen: dict[str, int] = {}
    sampling: dict[int, int] = {}
    latest: dict[str, int] = {}
    for window, sample in sorted(placed, key=lambda each: (each[0], each[1].pod_uid, each[1].start_time)):
        uid = sample.pod_uid
        identities[uid].add((sample.revision, sample.node))
        if len(identities[uid]) > 1:
            yield Fault(window, Reason.FOREIGN_SERIES, f"pod {uid} is said to be of two revisions or on two nodes")
        if sample.start_time > sample.window_end:
            yield Fault(window, Reason.CLOCK_JUMP, f"{_who(sample)} is of a process that started after the window")
        candidate = sample.revision == plan.candidate.revision
        moved = all(abs(sample.start_time - start) > START_TOLERANCE for start in starts[uid])
        if candidate and starts[uid] and moved:
            yield Fault(window, Reason.CANDIDATE_RESTARTED, f"the process of candidate pod {uid} started again")
        starts[uid].add(sample.start_time)
        if candidate and CRASHED in sample.flags:
            yield Fault(window, Reason.CANDIDATE_CRASHED, f"the engine of candidate pod {uid} ended of itself")
        if candidate and uid not in first_seen:
            first_seen[uid] = window
            if len(first_seen) > plan.candidate.pods:
                yield Fault(window, Reason.CANDIDATE_RESTARTED, f"candidate pod {uid} is one more than planned")
        if sample.sample_every is not None:
            sampling.setdefault(sample.sample_every, window)
        latest[uid] = window
    if len(sampling) > 1:
        yield Fault(max(sampling.values()), Reason.SAMPLING_DIFFERS, "steps are sampled at different intervals")


def _duplicates(placed: Iterable[tuple[int, Sample]]) -> Iterator[Fault]:
    seen: set[tuple[int, str, str, str, str, str]] = set()
    for window, sample in placed:
        key = (window, sample.pod_uid, sample.revision, sample.metric, sample.step, sample.batch)
        if key in seen:
            yield Fault(
                window,
                Reason.DUPLICATE_SERIES,
                f"{_who(sample)} has two series of step {sample.step!r} and batch {sample.batch!r} in one window",
            )
        seen.add(key)


def _spending(sample: Sample) -> str:
    """What spends the sample's window, if anything."""
    if sample.flags:
        return max(sample.flags)[:32] or "flagged"
    numbers = (sample.count, sample.sum, *(sample.buckets or {}).values(), sample.requests or 0.0)
    if not all(map(math.isfinite, numbers)):
        return "notFinite"
    if max(numbers) > LARGEST:
        return "outOfRange"
    if min(numbers) < 0:
        return "reset"
    return "restart" if sample.start_time > sample.window_start else ""


def _restarts(place: Mapping[str, int], placed: Iterable[tuple[int, Sample]]) -> Iterator[tuple[int, int]]:
    """Windows in which a pod's process is another than in the window before."""
    latest: dict[str, float] = {}
    for window, sample in sorted(placed, key=lambda each: (each[1].pod_uid, each[0], each[1].start_time)):
        before = latest.get(sample.pod_uid)
        if before is not None and abs(sample.start_time - before) > START_TOLERANCE:
            yield place[sample.pod_uid], window
        latest[sample.pod_uid] = sample.start_time


def _gateway(plan: Plan, placed: Iterable[tuple[int, Sample]], elapsed: int) -> dict[str, Floats]:
    sent: dict[str, Floats] = {}
    for window, sample in placed:
        if _of_gateway(plan, sample) and math.isfinite(sample.count) and sample.count >= 0 and not sample.flags:
            sent.setdefault(sample.revision, np.zeros(elapsed))[window] += sample.count
    return sent
