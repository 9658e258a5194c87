"""What the objects' statuses say, as series: conditions, slots, the rollout under way, its gates, and verdicts.

Collected when Prometheus asks, not kept in gauges: an object that is gone, a revision that gave up its last slot and a
phase that is over leave no series behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import TypeAdapter, ValidationError

from specdecode_operator.api.status import RevisionStatus, Status
from specdecode_operator.apply.store import Key
from specdecode_operator.build import runrecord

OBJECT: Final = ("namespace", "specdecode_name")
REVISION: Final = (*OBJECT, "specdecode_revision", "arm")
"""Spelled as in the labels of the engines' series, so that the two can be joined."""

GATE: Final = (*OBJECT, "run", "gate")

TRUTH: Final = {"True": 1.0, "False": 0.0, "Unknown": -1.0}


@dataclass(frozen=True)
class Gate:
    """A gate as the newest look of a run has it; effects are natural logarithms, candidate minus stable."""

    gate: str
    outcome: str
    reason: str
    margin: float
    estimate: float | None
    interval: tuple[float, float] | None


GATES: Final = TypeAdapter(tuple[Gate, ...])


@dataclass(frozen=True)
class Seen:
    """An object's newest status, and the gates of the run that it names."""

    status: Status
    gates: tuple[Gate, ...]


class Reported(Collector):
    """The newest status of each object that this process has planned."""

    def __init__(self) -> None:
        self._seen: dict[Key, Seen] = {}

    def saw(self, key: Key, status: Status, record: Mapping[str, Any] | None = None) -> None:
        """Take an object's status, and the record of the run that it names."""
        self._seen[key] = Seen(status, _gates(record or {}))

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._seen.pop(key, None)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The series of all objects."""
        seen = [(key, self._seen[key]) for key in sorted(self._seen)]
        statuses = [(key, each.status) for key, each in seen]
        yield _conditions(statuses)
        yield from _revisions(statuses)
        yield from _rollouts(statuses)
        yield _verdicts(statuses)
        yield from _judged(seen)


Statuses = list[tuple[Key, Status]]


def _gates(record: Mapping[str, Any]) -> tuple[Gate, ...]:
    """The gates of a record's newest look. What somebody has written into it instead must not cost the other series."""
    try:
        return GATES.validate_python(runrecord.newest_look(record).get("gates") or ())
    except ValidationError:
        return ()


def _conditions(statuses: Statuses) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "specdecode_condition",
        "A condition of an object: 1 True, 0 False, -1 Unknown.",
        labels=(*OBJECT, "type", "reason"),
    )
    for key, status in statuses:
        for each in status.conditions:
            family.add_metric((*key, each.type, each.reason), TRUTH[each.status])
    return family


def _revisions(statuses: Statuses) -> Iterator[GaugeMetricFamily]:
    yield _of_revisions(statuses, "slots", "Replicas that a revision holds.", lambda held, _: held.slots)
    yield _of_revisions(statuses, "ready_slots", "Those of them that are Ready.", lambda held, _: held.ready)
    yield _of_revisions(statuses, "route_weight", "Its weight in the route.", lambda held, _: held.weight)
    yield _of_revisions(statuses, "gpus", "GPUs of its replicas.", lambda held, gpus: held.slots * gpus)


def _of_revisions(
    statuses: Statuses, name: str, text: str, value: Callable[[RevisionStatus, int], int]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"specdecode_{name}", text, labels=REVISION)
    for key, status in statuses:
        gpus = status.profile.gpus_per_replica if status.profile else 0
        for arm, held in (("stable", status.stable), ("candidate", status.candidate)):
            if held is not None:
                family.add_metric((*key, held.revision, arm), value(held, gpus))
    return family


def _rollouts(statuses: Statuses) -> Iterator[GaugeMetricFamily]:
    phase = GaugeMetricFamily("specdecode_rollout_phase", "1 for what a rollout does now.", labels=(*OBJECT, "phase"))
    since = GaugeMetricFamily("specdecode_rollout_phase_start_time_seconds", "Since when it does.", labels=OBJECT)
    for key, status in statuses:
        if status.run is not None:
            phase.add_metric((*key, status.run.phase), 1)
            since.add_metric(key, status.run.since.timestamp())
    yield phase
    yield since


def _verdicts(statuses: Statuses) -> GaugeMetricFamily:
    """As times, so that one that came while nobody scraped is there too."""
    labels = (*OBJECT, "run", "specdecode_revision", "outcome", "reason")
    family = GaugeMetricFamily("specdecode_verdict_time_seconds", "When a canary's run ended.", labels=labels)
    for key, status in statuses:
        for each in status.verdicts or ():
            family.add_metric((*key, each.run, each.revision, each.outcome, each.reason), each.time.timestamp())
    return family


def _judged(seen: list[tuple[Key, Seen]]) -> Iterator[GaugeMetricFamily]:
    """Gates of the runs that statuses name, ended ones too: what was found last explains the verdict."""
    verdict = GaugeMetricFamily(
        "specdecode_gate_verdict", "1 for what a gate says.", labels=(*GATE, "outcome", "reason")
    )
    estimate = GaugeMetricFamily(
        "specdecode_gate_estimate", "Candidate minus stable, as a natural logarithm.", labels=GATE
    )
    bounds = GaugeMetricFamily("specdecode_gate_interval", "Bounds of its interval.", labels=(*GATE, "bound"))
    margin = GaugeMetricFamily("specdecode_gate_margin", "Largest harm that may pass.", labels=GATE)
    for key, each in seen:
        run = each.status.run.id if each.status.run else None
        for gate in each.gates if run else ():
            labels = (*key, str(run), gate.gate)
            verdict.add_metric((*labels, gate.outcome, gate.reason), 1)
            margin.add_metric(labels, gate.margin)
            if gate.estimate is not None:
                estimate.add_metric(labels, gate.estimate)
            for bound, value in zip(("lower", "upper"), gate.interval or (), strict=False):
                bounds.add_metric((*labels, bound), value)
    yield from (verdict, estimate, bounds, margin)
