"""`rollout.baseline: fresh`: a stable slot is restarted with each of the candidate's, and nothing else is."""

from __future__ import annotations

from functools import partial
from typing import Any

import promises
import pytest
from builders import IMAGE, OTHER_IMAGE
from canaries import CanaryFleet, canary

from specdecode_operator.api import names
from specdecode_operator.plan.actions import Delete
from specdecode_operator.plan.canary.asking import digest

TWO = [{"slots": 2, "minDuration": "5m", "maxDuration": "10m"}]


def fresh(replicas: int = 8, steps: list[dict[str, Any]] | None = None, **rollout: Any) -> CanaryFleet:
    """A full fleet at rest, just asked for another image."""
    fleet = CanaryFleet.of(canary(replicas, steps or TWO, baseline="fresh", **rollout))
    assert isinstance(fleet, CanaryFleet)
    fleet.nodes = replicas
    fleet.settle()
    fleet.before_write = partial(promises.check_canary, fleet)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    return fleet


def old_pods(fleet: CanaryFleet) -> set[str]:
    return {uid for uid, pod in fleet.pods.items() if pod["metadata"]["labels"][names.LABEL_REVISION] == fleet.stable()}


def restarted(fleet: CanaryFleet, before: set[str]) -> set[str]:
    return old_pods(fleet) - before


def test_a_stable_slot_is_restarted_with_each_of_the_candidates() -> None:
    fleet = fresh()
    before = old_pods(fleet)
    fleet.until("Measuring")
    assert fleet.slots() == 2
    assert len(restarted(fleet, before)) == 2
    assert len(old_pods(fleet)) == 6
    assert fleet.serving() == 8
    assert set(fleet.record["before"]) == before
    assert sum("restarts a stable slot" in event for event in fleet.events) == 2


def test_they_go_by_turns_so_that_both_are_of_one_age() -> None:
    fleet = fresh()
    before = old_pods(fleet)
    while fleet.obj["status"].get("run", {}).get("phase") != "Measuring":
        fleet.turn(1)
        young, slots = len(restarted(fleet, before)), fleet.slots()
        assert young <= slots <= young + 1


def test_the_restarted_stay_when_later_steps_take_more_slots() -> None:
    fleet = fresh(steps=[{"slots": 1, "minDuration": "5m"}, {"slots": 3, "minDuration": "5m"}])
    before = old_pods(fleet)
    fleet.until("Measuring", "1/2")
    first = restarted(fleet, before)
    fleet.until("Measuring", "2/2")
    assert first < restarted(fleet, before)
    assert len(restarted(fleet, before)) == 3


def with_a_restarted_slot_that_does_not_serve() -> CanaryFleet:
    fleet = fresh()
    before = old_pods(fleet)
    while not restarted(fleet, before):
        fleet.turn(1)
    fleet.bad_images.add(IMAGE)
    for pod in restarted(fleet, before):
        fleet.set_ready(fleet.pods[pod], False)
    return fleet


def test_the_step_begins_once_the_restarted_serve() -> None:
    fleet = with_a_restarted_slot_that_does_not_serve()
    for _ in range(20):
        fleet.turn()
    assert fleet.run["phase"] == "Swapping"
    assert fleet.slots() == 1
    assert "0 of 2 stable slots restarted" in fleet.run["message"]


def test_a_restarted_slot_that_never_gets_ready_ends_the_run() -> None:
    fleet = with_a_restarted_slot_that_does_not_serve()
    for _ in range(120):
        fleet.turn(60)
        if fleet.run["phase"] == "Ended":
            break
    verdict = fleet.obj["status"]["verdicts"][-1]
    assert (verdict["outcome"], verdict["reason"]) == ("Aborted", "NeverReady")
    assert "a stable slot restarted for it" in verdict["message"].lower()


def test_nothing_is_restarted_below_min_available_or_in_a_pause() -> None:
    fleet = fresh()
    before = old_pods(fleet)
    while fleet.slots() < 1 or fleet.serving() < 8:
        fleet.turn(1)
    fleet.ask("pause")
    for _ in range(6):
        fleet.turn()
    assert restarted(fleet, before) == set()
    fleet.ask("resume", id="2")
    fleet.edit(lambda it: it.set("spec.minAvailable", 8))
    for _ in range(6):
        fleet.turn()
    assert restarted(fleet, before) == set()
    assert fleet.serving() == 8


def test_a_pod_that_something_else_replaced_is_as_young() -> None:
    fleet = fresh(steps=[{"slots": 1, "minDuration": "5m"}])
    before = old_pods(fleet)
    while not fleet.slots():
        fleet.turn(1)
    fleet.terminate(fleet.pods[min(old_pods(fleet))])
    fleet.before_write = refuse_restarts
    fleet.until("Measuring")
    assert len(restarted(fleet, before)) == 1


def refuse_restarts(action: object) -> None:
    assert not isinstance(action, Delete) or action.kind != "Pod"


def test_with_the_stable_baseline_nothing_is_restarted() -> None:
    fleet = CanaryFleet.of(canary(8, TWO))
    assert isinstance(fleet, CanaryFleet)
    fleet.settle()
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.before_write = refuse_restarts
    fleet.until("Measuring")
    assert fleet.record["before"] == []


def test_fail_restarts_nothing_more() -> None:
    fleet = fresh()
    fleet.until("Measuring")
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.before_write = refuse_restarts
    fleet.rest()
    assert fleet.slots(IMAGE) == 8


@pytest.mark.parametrize(("replicas", "slots", "possible"), [(3, 2, 4), (2, 1, 3)])
def test_too_few_slots_to_restart_as_many_are_said(replicas: int, slots: int, possible: int) -> None:
    fleet = fresh(replicas, [{"slots": slots}])
    for _ in range(3):
        fleet.turn()
    assert fleet.slots() == 0
    assert fleet.progressing == ("False", names.REASON_UNFIT)
    assert f"Raise spec.replicas to {possible}" in fleet.condition("Progressing")["message"]


def test_a_field_that_came_later_ends_no_run_at_its_default() -> None:
    plain = canary().spec()
    assert digest(canary().set("spec.rollout.baseline", "stable").spec()) == digest(plain)
    assert digest(canary().set("spec.rollout.baseline", "fresh").spec()) != digest(plain)
    assert digest(plain) == "sha256:09000192e3c4b7a3b84c6eba55d84222f0d2610172e0696375ba99ba3a583940"
