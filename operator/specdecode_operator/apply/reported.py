"""What the objects' statuses say, as series: conditions, slots and the rollout under way.

Collected when Prometheus asks, not kept in gauges: an object that is gone, a revision that gave up its last slot and a
phase that is over leave no series behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from specdecode_operator.api.status import RevisionStatus, Status
from specdecode_operator.apply.store import Key

OBJECT: Final = ("namespace", "specdecode_name")
REVISION: Final = (*OBJECT, "specdecode_revision", "arm")
"""Spelled as in the labels of the engines' series, so that the two can be joined."""

TRUTH: Final = {"True": 1.0, "False": 0.0, "Unknown": -1.0}


class Reported(Collector):
    """The newest status of each object that this process has planned."""

    def __init__(self) -> None:
        self._statuses: dict[Key, Status] = {}

    def saw(self, key: Key, status: Status) -> None:
        """Take an object's status."""
        self._statuses[key] = status

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._statuses.pop(key, None)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The series of all objects."""
        statuses = sorted(self._statuses.items())
        yield _conditions(statuses)
        yield from _revisions(statuses)
        yield from _rollouts(statuses)


Statuses = list[tuple[Key, Status]]


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
