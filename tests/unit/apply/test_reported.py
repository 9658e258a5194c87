"""What the operator knows of objects, as series: there while it is so, and gone with the object."""

import gzip
import json
from collections.abc import Mapping
from typing import Any

import pytest
from builders import OTHER_IMAGE, deployment
from canaries import CanaryFleet, changed, without_metrics
from fleet import Fleet
from prometheus_client import generate_latest

from specdecode_operator.api import names
from specdecode_operator.api.status import Status
from specdecode_operator.apply import kinds
from specdecode_operator.apply.client import Api, NotFound
from specdecode_operator.apply.events import Recorder
from specdecode_operator.apply.execute import Executor
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.reconcile import Reconciler
from specdecode_operator.apply.store import Key, Store
from specdecode_operator.build import runrecord
from specdecode_operator.build.owner import Owner

Json = dict[str, Any]
KEY = Key("serving", "demo")
OBJECT = {"namespace": "serving", "specdecode_name": "demo"}


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
def replacing() -> Fleet:
    """Three trays of four GPUs, of which a candidate is about to get the first."""
    wide = deployment().on("gb200").set("spec.parallelism", {"tensor": 4}).replicas(3).behind("edge")
    fleet = Fleet.of(wide)
    fleet.settle()
    fleet.edit(lambda sdd: sdd.image(OTHER_IMAGE))
    for _ in range(3):
        fleet.round()
    return fleet


def saw(meters: Meters, fleet: Fleet) -> Status:
    status = fleet.parsed().status
    meters.reported.saw(KEY, status)
    return status


def value(meters: Meters, name: str, labels: Mapping[str, str]) -> float | None:
    return meters.registry.get_sample_value(f"specdecode_{name}", {**OBJECT, **labels})


def named(meters: Meters, name: str) -> list[dict[str, str]]:
    """Labels of each series of a metric."""
    found = [sample for family in meters.registry.collect() for sample in family.samples]
    return [sample.labels for sample in found if sample.name == f"specdecode_{name}"]


@pytest.mark.parametrize(("status", "number"), [("True", 1), ("False", 0), ("Unknown", -1)])
def test_a_condition_is_a_number_with_its_reason(meters: Meters, status: str, number: int) -> None:
    condition = {
        "type": "Ready",
        "status": status,
        "reason": "Why",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    meters.reported.saw(KEY, Status.model_validate({"conditions": [condition]}))
    assert value(meters, "condition", {"type": "Ready", "reason": "Why"}) == number


def test_each_arm_has_its_slots_weight_and_gpus(meters: Meters, replacing: Fleet) -> None:
    status = saw(meters, replacing)
    for arm, held in (("stable", status.stable), ("candidate", status.candidate)):
        assert held is not None
        labels = {"specdecode_revision": held.revision, "arm": arm}
        assert value(meters, "slots", labels) == held.slots
        assert value(meters, "ready_slots", labels) == held.ready
        assert value(meters, "route_weight", labels) == held.weight
        assert value(meters, "gpus", labels) == 4 * held.slots
    assert sum(4 * held.slots for held in (status.stable, status.candidate) if held) > 0


def test_a_rollout_says_what_it_does_and_since_when_and_nothing_once_it_is_over(
    meters: Meters, replacing: Fleet
) -> None:
    run = saw(meters, replacing).run
    assert run is not None
    assert named(meters, "rollout_phase") == [{**OBJECT, "phase": run.phase}]
    assert value(meters, "rollout_phase_start_time_seconds", {}) == run.since.timestamp()
    replacing.settle()
    saw(meters, replacing)
    assert named(meters, "rollout_phase") == named(meters, "rollout_phase_start_time_seconds") == []
    assert {labels["arm"] for labels in named(meters, "slots")} == {"stable"}


GATE = {"gate": "drafter", "outcome": "Inconclusive", "reason": "Measuring", "margin": 0.02, "drift": None}


def record(run: str, *gates: Json) -> Json:
    """A run's record whose newest look has these gates."""
    line = json.dumps({"window": 12, "gates": gates})
    packed = {runrecord.looks_file(0): gzip.compress(f"{line}\n".encode())}
    return runrecord.build(Owner("demo", "serving", "uid"), run, {}, packed)


@pytest.fixture(scope="module")
def canary() -> CanaryFleet:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    return fleet


def test_each_gate_has_its_estimate_interval_margin_and_what_it_says(meters: Meters, canary: CanaryFleet) -> None:
    status, run = canary.parsed().status, canary.run["id"]
    measured = {**GATE, "estimate": -0.004, "interval": [-0.02, 0.01]}
    open_still = {**GATE, "gate": "acceptance", "estimate": None, "interval": None}
    meters.reported.saw(KEY, status, record(run, measured, open_still))
    drafter = {"run": run, "gate": "drafter"}
    assert value(meters, "gate_estimate", drafter) == -0.004
    bounds = [value(meters, "gate_interval", {**drafter, "bound": bound}) for bound in ("lower", "upper")]
    assert bounds == [-0.02, 0.01]
    assert value(meters, "gate_margin", {**drafter, "gate": "acceptance"}) == 0.02
    assert value(meters, "gate_verdict", {**drafter, "outcome": "Inconclusive", "reason": "Measuring"}) == 1
    assert [labels["gate"] for labels in named(meters, "gate_estimate")] == ["drafter"]


@pytest.mark.parametrize("spoilt", [{**GATE, "margin": "wide"}, {"gate": "drafter"}, "drafter"])
def test_a_record_that_somebody_has_spoilt_costs_no_other_series(
    meters: Meters, canary: CanaryFleet, spoilt: Any
) -> None:
    meters.reported.saw(KEY, canary.parsed().status, record(canary.run["id"], spoilt))
    assert named(meters, "gate_margin") == []
    assert len(named(meters, "rollout_phase")) == 1


def test_a_verdict_says_when_a_run_ended_and_the_last_gates_stay_as_long_as_status_names_it(meters: Meters) -> None:
    fleet = changed()
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    status, run = fleet.parsed().status, fleet.run["id"]
    (verdict,) = status.verdicts or ()
    measured = {**GATE, "outcome": "Fail", "estimate": 0.05, "interval": [0.03, 0.07]}
    meters.reported.saw(KEY, status, record(run, measured))
    ended = {"run": run, "specdecode_revision": verdict.revision, "outcome": "Fail", "reason": "BeyondMargin"}
    assert value(meters, "verdict_time_seconds", ended) == verdict.time.timestamp()
    assert value(meters, "gate_estimate", {"run": run, "gate": "drafter"}) == 0.05
    meters.reported.saw(KEY, status.model_copy(update={"run": None}), record(run, measured))
    assert named(meters, "gate_estimate") == []
    assert len(named(meters, "verdict_time_seconds")) == 1


class Server(Api):
    """An API server with one object, or none."""

    def __init__(self) -> None:
        self.obj: Json | None = deployment().stored()

    async def get(self, path: str, query: Any = None) -> Json:
        if self.obj is not None and path == kinds.SDD.path(KEY.namespace, KEY.name):
            return self.obj
        raise NotFound(404, {"message": "not found"})

    async def apply(self, path: str, manifest: Json, *, manager: str, force: bool = True) -> Json:
        return {**manifest, "metadata": {**manifest["metadata"], "uid": path, "resourceVersion": "1"}}

    async def put(self, path: str, manifest: Json, *, manager: str) -> Json:
        self.obj = manifest
        return manifest

    async def post(self, path: str, manifest: Json, *, manager: str) -> Json:
        return manifest

    async def named(self, path: str, name: str) -> Json | None:
        return None


async def test_a_reconcile_reports_the_gates_of_the_run_that_status_names(meters: Meters, canary: CanaryFleet) -> None:
    store = Store(lambda _: None)
    name = names.run_record("demo", canary.run["id"])
    told = record(canary.run["id"], {**GATE, "estimate": 0.0, "interval": [-0.01, 0.01]})
    told["metadata"] |= {"name": name, "namespace": "serving", "uid": "1", "resourceVersion": "1"}
    store.seen(kinds.CONFIG_MAP, told)
    server = Server()
    executor, recorder = Executor(server, store, meters), Recorder(server, meters)
    operator = Reconciler(server, store, executor, recorder, meters, frozenset, lambda _: {}, without_metrics(meters))
    assert server.obj is not None
    await operator.write_status(KEY, server.obj, canary.parsed().status)
    assert [labels["run"] for labels in named(meters, "gate_margin")] == [canary.run["id"]]


async def test_an_object_is_reported_from_its_first_reconcile_until_it_is_gone(meters: Meters) -> None:
    server, store = Server(), Store(lambda _: None)
    executor, recorder = Executor(server, store, meters), Recorder(server, meters)
    canaries = without_metrics(meters)
    operator = Reconciler(server, store, executor, recorder, meters, frozenset, lambda _: {}, canaries)
    await operator.reconcile(KEY)
    assert {labels["type"] for labels in named(meters, "condition")} == {"Ready", "Progressing", "Attested", "Routable"}
    server.obj = None
    await operator.reconcile(KEY)
    assert b"specdecode_condition{" not in generate_latest(meters.registry)
    assert named(meters, "slots") == []
