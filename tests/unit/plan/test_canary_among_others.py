"""A canary while others act: who scales the object, nodes that keep GPUs, metrics that are gone, another canary."""

from __future__ import annotations

import pytest
from builders import OTHER_IMAGE
from canaries import CanaryFleet, canary, changed
from fleet import terminating

from specdecode_operator.api import names

TWO = [{"slots": 2, "minDuration": "5m", "maxDuration": "10m"}]
STEPS = [{"slots": 1, "minDuration": "5m"}, {"slots": 2, "minDuration": "5m", "maxDuration": "10m"}]


def test_a_slot_whose_gpus_arent_freed_waits_and_says_for_which_pod() -> None:
    fleet = changed(steps=TWO)
    fleet.stuck = set(fleet.pods)
    for _ in range(30):
        fleet.turn()
    (going,) = [pod for pod in fleet.pods.values() if terminating(pod)]
    assert fleet.slots() == 0
    assert fleet.serving() == 7
    assert fleet.progressing == ("True", names.REASON_CANARY)
    assert f"until pod {going['metadata']['name']} is gone" in fleet.condition("Progressing")["message"]
    fleet.stuck.clear()
    fleet.until("Measuring")
    assert fleet.slots() == 2


def test_replicas_that_an_autoscaler_changes_all_the_time_keep_the_run_and_are_followed() -> None:
    fleet = changed(steps=TWO)
    fleet.until("Swapping")
    first, wanted = fleet.run["id"], [8, 9, 11, 10, 8, 7]
    for turn in range(24):
        fleet.edit(lambda it, to=wanted[turn // 4]: it.replicas(to))  # type: ignore[misc]
        fleet.turn()
    assert fleet.run["id"] == first
    fleet.edit(lambda it: it.replicas(9))
    for _ in range(4):
        fleet.turn()
    assert sum(fleet.replicas().values()) == 9
    fleet.sees = "Pass(WithinMargin)"
    fleet.until("Promoting")
    fleet.rest()
    assert fleet.slots() == 9
    assert [each["outcome"] for each in fleet.obj["status"]["verdicts"]] == ["Pass"]


def test_stable_slots_that_came_later_on_other_nodes_arent_compared() -> None:
    """They have no history there, and a sample of a node that isn't in the plan would make the run invalid."""
    fleet = changed(steps=STEPS)
    fleet.until("Measuring", "1/2")
    known = set(fleet.record["steps"][0]["cohort"])
    fleet.edit(lambda it: it.replicas(11))
    fleet.until("Measuring", "2/2")
    cohort = set(fleet.record["steps"][1]["cohort"])
    assert cohort < known
    assert len(cohort) == 6
    assert len(fleet.pods_of(fleet.stable())) == 9


def test_a_stable_pod_that_dies_while_it_is_measured_ends_nothing() -> None:
    fleet = changed(steps=TWO)
    fleet.until("Measuring")
    first, before = fleet.run["id"], fleet.record["steps"][-1]
    fleet.terminate(fleet.pods[before["cohort"][0]])
    for _ in range(3):
        fleet.turn()
    assert fleet.serving() == 8
    after = fleet.record["steps"][-1]
    assert (after["start"], after["cohort"]) == (before["start"], before["cohort"])
    fleet.sees = "Pass(WithinMargin)"
    fleet.until("Promoting")
    assert fleet.run["id"] == first


@pytest.mark.parametrize("kind", ["NoData", "BackendDown"])
def test_metrics_that_are_gone_for_an_hour_hold_the_slots_and_what_they_say_then_counts(kind: str) -> None:
    fleet = changed(steps=[{"slots": 2, "minDuration": "5m", "maxDuration": "40m"}])
    fleet.until("Measuring")
    first, begun = fleet.run["id"], fleet.now
    fleet.backend = kind
    while (fleet.now - begun).total_seconds() < 3600:
        fleet.turn(60)
        assert fleet.slots() == 2
    assert fleet.progressing == ("False", names.REASON_RUN_HELD)
    assert fleet.condition("MetricsAvailable")["reason"] == kind
    assert "verdicts" not in fleet.obj["status"]
    fleet.backend, fleet.sees = "up", "Pass(WithinMargin)"
    fleet.until("Promoting")
    assert fleet.run["id"] == first


def test_two_canaries_of_one_namespace_go_their_own_ways() -> None:
    """Their ConfigMaps lie beside each other; each is read by its object's name alone."""
    fleets = []
    for name, uid in (("demo", "1"), ("demo-run", "2")):
        fleet = CanaryFleet.of(canary(8, TWO).set("metadata.name", name).set("metadata.uid", uid))
        assert isinstance(fleet, CanaryFleet)
        fleet.settle()
        fleet.edit(lambda it: it.image(OTHER_IMAGE))
        fleets.append(fleet)
    one, other = fleets
    one.until("Measuring")
    other.until("Measuring")
    shared = {key: item for fleet in fleets for key, item in fleet.children.items() if key[0] == "ConfigMap"}
    assert len(shared) == 4
    for fleet in fleets:
        fleet.children.update(shared)
    one.sees, other.sees = "Fail(BeyondMargin)", "Pass(WithinMargin)"
    one.until("Ended")
    other.until("Promoting")
    one.rest()
    other.rest()
    assert (one.slots(), other.slots()) == (0, 8)
    assert [len(fleet.obj["status"]["verdicts"]) for fleet in fleets] == [1, 1]
