"""Whatever happens to a canary in whatever order, nothing is promoted without a Pass or somebody who asked for it.

Each write is held against what any rollout promises too: capacity, GPUs, the route, and which pods may end.
"""

from __future__ import annotations

import contextlib
import json
import os
from copy import deepcopy
from functools import cache, partial
from typing import Any

import promises
from builders import IMAGE
from canaries import CanaryFleet, canary
from fleet import Crashed, Stale, terminating
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from specdecode_operator.api import names

IMAGES = [IMAGE, *(IMAGE.replace("engine@", f"engine-{letter}@") for letter in "bc")]
STEPS = [{"slots": 1, "minDuration": "5m"}, {"slots": 2, "minDuration": "5m", "maxDuration": "5m"}]
MOST = 2
"""Slots of the last step."""

LONG = bool(os.environ.get("SPECDECODE_LONG_TESTS"))
"""Whether there is time for a longer search, each time another."""

SAYS = ["Measuring", "Pass(WithinMargin)", "Fail(BeyondMargin)", "Invalid(ForeignSeries)", "Inconclusive(NoData)"]


TURN = 80.0
"""Seconds of a turn: some windows, so that a step is over in a few."""

STAGES = [
    (None, "stable", 0),
    (("Swapping", "1/2"), "stable", 0),
    (("Swapping", "1/2"), "fresh", 1),
    (("Measuring", "1/2"), "stable", 0),
    (("Swapping", "2/2"), "stable", 1),
    (("Swapping", "2/2"), "fresh", 0),
    (("Measuring", "2/2"), "stable", 2),
    (("Judging", "2/2"), "fresh", 0),
]
"""How far the canary has come when all begins: by chance alone few would ever get to their last step."""


@cache
def came_to(stage: tuple[str, str] | None, baseline: str, surge: int) -> CanaryFleet:
    """A fleet whose canary is there; at rest for None."""
    fleet = CanaryFleet.of(canary(5, STEPS, baseline=baseline, surgeSlots=surge))
    assert isinstance(fleet, CanaryFleet)
    fleet.settle()
    if stage is not None:
        fleet.edit(lambda it: it.image(IMAGES[1]))
        fleet.until(*stage)
    return fleet


class Canaries(RuleBasedStateMachine):
    """A canary among everybody else."""

    fleet: CanaryFleet
    first: str
    deleted: bool = False
    """Whether somebody has deleted a record: then nothing but status tells, which must not be lost before or after."""

    @initialize(stage=st.sampled_from(STAGES))
    def begin(self, stage: tuple[tuple[str, str] | None, str, int]) -> None:
        self.fleet = deepcopy(came_to(*stage))
        self.fleet.before_write = partial(promises.check_canary, self.fleet)
        self.first = self.fleet.stable()
        self.promoted = {self.first}
        self.asked_to_promote: set[str] = set()

    # --- The user -----------------------------------------------------------------------------------------------------

    @rule(image=st.sampled_from(IMAGES))
    def change_image(self, image: str) -> None:
        self.fleet.edit(lambda it: it.image(image))

    @rule(replicas=st.sampled_from([0, 1, 3, 5, 7]))
    def scale(self, replicas: int) -> None:
        self.fleet.edit(lambda it: it.replicas(replicas))

    @rule(margin=st.sampled_from(["2%", "5%"]))
    def change_a_margin(self, margin: str) -> None:
        gate = {"name": "drafter", "metric": "drafterGpuSpan", "margin": margin}
        self.fleet.edit(lambda it: it.set("spec.gates", [gate]))

    @rule(baseline=st.sampled_from(["stable", "fresh"]))
    def change_what_is_compared(self, baseline: str) -> None:
        self.fleet.edit(lambda it: it.set("spec.rollout.baseline", baseline))

    @rule(surge=st.sampled_from([0, 1, 2]))
    def change_the_surge(self, surge: int) -> None:
        self.fleet.edit(lambda it: it.set("spec.rollout.surgeSlots", surge))

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.fleet.edit(lambda it: it.set("spec.rollout.paused", paused))

    @rule(verb=st.sampled_from(["promote", "abort", "pause", "resume", "retry", "nonsense"]), id=st.integers(0, 99))
    def ask(self, verb: str, id: int) -> None:
        run = (self.fleet.obj["status"].get("run") or {}).get("id", "none")
        self.fleet.ask(verb, run=run, id=str(id))
        self.asked_to_promote |= {run} if verb == "promote" else set()

    # --- The operator and the metrics ---------------------------------------------------------------------------------

    @rule(turns=st.sampled_from([1, 2, 4, 8]))
    def go_on(self, turns: int) -> None:
        for _ in range(turns):
            with contextlib.suppress(Stale):
                self.fleet.turn(TURN)
            self.look()

    @rule(writes=st.integers(0, 4))
    def die(self, writes: int) -> None:
        with contextlib.suppress(Crashed, Stale):
            self.fleet.reconcile(writes=writes)
        self.fleet.evidence = None

    @precondition(lambda self: self.told())
    @rule()
    def lose_status(self) -> None:
        self.fleet.lose_status()

    @rule(sees=st.sampled_from(SAYS))
    def looks_say(self, sees: str) -> None:
        self.fleet.sees = sees

    @rule(backend=st.sampled_from(["up", "up", "NoData", "BackendDown"]))
    def metrics_are(self, backend: str) -> None:
        self.fleet.backend = backend

    @precondition(lambda self: any(not terminating(pod) for pod in self.fleet.pods.values()))
    @rule(data=st.data())
    def a_pod_crashes(self, data: st.DataObject) -> None:
        alive = sorted(uid for uid, pod in self.fleet.pods.items() if not terminating(pod))
        self.fleet.set_ready(self.fleet.pods[data.draw(st.sampled_from(alive))], False)

    @precondition(lambda self: "stable" in self.fleet.obj["status"])
    @precondition(lambda self: any(kind == "ConfigMap" for kind, _ in self.fleet.children))
    @rule(data=st.data())
    def somebody_deletes_a_record(self, data: st.DataObject) -> None:
        found = sorted(key for key in self.fleet.children if key[0] == "ConfigMap")
        self.look()
        self.deleted = True
        del self.fleet.children[data.draw(st.sampled_from(found))]

    def told(self) -> bool:
        """Whether something tells which revision is stable, should status not."""
        records = any(kind == "ConfigMap" for kind, _ in self.fleet.children)
        return not self.deleted and (records or bool(self.fleet.replicas().get(self.first)))

    # --- What is promised ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Which revisions may have more than a step's slots: those whose run says so, on evidence or by request."""
        evidence = {"Pass": self.fleet.passed, "Promoted": self.asked_to_promote}
        for (kind, _), item in self.fleet.children.items():
            record: dict[str, Any] = json.loads(item["data"].get("run.json", "{}")) if kind == "ConfigMap" else {}
            outcome = (record.get("ended") or {}).get("outcome")
            if outcome in evidence:
                assert record["id"] in evidence[outcome], f"run {record['id']} says {outcome}, and nobody else does"
                self.promoted.add(record["candidate"])

    @invariant()
    def nothing_is_promoted_without_evidence(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.look()
        for revision, slots in self.fleet.replicas().items():
            assert revision in self.promoted or slots <= MOST, f"{revision} has {slots} slots and no Pass"
        stable = (self.fleet.obj["status"].get("stable") or {}).get("revision", self.first)
        assert stable in self.promoted

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.fleet.backend, self.fleet.sees = "up", "Pass(WithinMargin)"
        self.fleet.obj["metadata"].get("annotations", {}).pop(names.ANNOTATION_REQUEST, None)
        self.fleet.edit(lambda it: it.replicas(5).set("spec.rollout.paused", False))
        self.fleet.rest(600, TURN)
        self.look()
        self.nothing_is_promoted_without_evidence()
        assert sum(self.fleet.replicas().values()) == 5
        assert self.fleet.serving() == 5


Canaries.TestCase.settings = settings(
    max_examples=600 if LONG else 20,
    stateful_step_count=25,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TestCanaries = Canaries.TestCase
