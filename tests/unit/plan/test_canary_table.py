"""Events of a canary and what follows from each: one test a row."""

from __future__ import annotations

import json

import pytest
from builders import IMAGE, OTHER_IMAGE
from canaries import STEPS, CanaryFleet, canary, changed, serving

from specdecode_operator.api import names
from specdecode_operator.plan.actions import Apply

HOLD = [{"slots": 2, "minDuration": "5m", "maxDuration": "5m"}]


def test_without_a_rollout_nothing_is_different() -> None:
    fleet = CanaryFleet.of(canary().without("spec.rollout"))
    fleet.settle()
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.settle()
    assert fleet.slots() == 8
    assert not [key for key in fleet.children if key[0] == "ConfigMap"]
    assert set(fleet.obj["status"]) & {"verdicts", "rejected", "request", "run"} == set()


def test_the_first_revision_ever_is_stable_ungated() -> None:
    fleet = serving()
    assert fleet.progressing == ("True", names.REASON_COMPLETE)
    assert fleet.asked == []
    assert "unproven" not in fleet.obj["status"]["stable"]


def test_a_first_revision_that_never_served_is_replaced_ungated() -> None:
    fleet = CanaryFleet.of(canary().image(OTHER_IMAGE))
    fleet.bad_images.add(OTHER_IMAGE)
    for _ in range(5):
        fleet.turn()
    assert fleet.obj["status"]["stable"]["unproven"] is True
    fleet.edit(lambda it: it.image(IMAGE))
    fleet.rest()
    assert fleet.slots(IMAGE) == 8
    assert fleet.asked == []


def test_nothing_moves_before_the_plan_is_registered() -> None:
    fleet = changed()
    for _ in range(5):
        fleet.round()
    assert fleet.slots() == 0
    assert fleet.run["phase"] == "Planning"
    assert [each.split()[0] for each in fleet.asked] == ["register"]


def test_the_plan_is_immutable_and_its_digest_is_in_status_before_the_first_swap() -> None:
    fleet = changed()
    while not fleet.slots():
        before = json.loads(json.dumps(fleet.obj["status"]))
        fleet.turn()
    plan = fleet.children[("ConfigMap", before["run"]["plan"])]
    assert plan["immutable"] is True
    assert before["run"]["planDigest"].startswith("sha256:")
    assert before["run"]["planDigest"] == fleet.record["plan"]


def test_slots_move_step_by_step_and_the_last_pass_promotes() -> None:
    fleet = changed()
    old = fleet.stable()
    fleet.until("Measuring", "1/2")
    assert fleet.slots() == 1
    assert fleet.routed()[old] == 7
    fleet.until("Measuring", "2/2")
    assert fleet.slots() == 2
    assert sorted(fleet.routed().values()) == [2, 6]
    fleet.sees = "Pass(WithinMargin)"
    fleet.until("Promoting")
    fleet.rest()
    assert fleet.slots() == 8
    assert fleet.stable() != old
    assert fleet.obj["status"]["verdicts"][-1]["outcome"] == "Pass"
    assert "run" not in fleet.obj["status"]
    assert fleet.progressing == ("True", names.REASON_COMPLETE)


def test_a_pass_waits_for_the_steps_least_time() -> None:
    fleet = changed(steps=[{"slots": 2, "minDuration": "10m", "maxDuration": "20m"}])
    fleet.until("Measuring")
    fleet.sees = "Pass(WithinMargin)"
    begun = fleet.now
    fleet.until("Promoting")
    assert (fleet.now - begun).total_seconds() >= 600


def test_an_early_step_never_promotes() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.until("Measuring", "2/2")
    assert fleet.slots() == 2


def test_fail_gives_slots_and_weights_back_and_rejects_the_revision() -> None:
    fleet = changed()
    old = fleet.stable()
    fleet.until("Measuring", "2/2")
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    assert fleet.slots() == 0
    assert fleet.routed() == {old: 8}
    assert fleet.stable() == old
    rejected = fleet.obj["status"]["rejected"][-1]
    assert rejected["reason"] == "BeyondMargin"
    assert fleet.progressing == ("False", names.REASON_REJECTED)


def test_failed_slots_leave_the_route_at_once_where_stable_serves_enough() -> None:
    fleet = changed(steps=HOLD)
    fleet.edit(lambda it: it.set("spec.minAvailable", 6))
    fleet.until("Measuring")
    fleet.sees = "Fail(Catastrophe)"
    while fleet.run["phase"] != "Ended":
        fleet.turn(1)
    assert fleet.routed() == {fleet.stable(): 6}
    fleet.gateway()
    fleet.reconcile()
    assert fleet.slots() == 0


def test_failed_slots_go_back_without_falling_below_min_available() -> None:
    fleet = changed(steps=HOLD)
    fleet.until("Measuring")
    fleet.sees = "Fail(Catastrophe)"
    while fleet.slots():
        fleet.turn(1)
        assert fleet.serving_for_good() >= 7
    fleet.rest()
    assert fleet.serving() == 8


def test_failed_slots_that_min_available_keeps_are_said_and_go_once_it_is_lowered() -> None:
    fleet = changed(steps=HOLD)
    fleet.until("Measuring")
    fleet.edit(lambda it: it.set("spec.minAvailable", 8))
    fleet.sees = "Fail(Catastrophe)"
    fleet.until("Ended")
    fleet.rest()
    assert fleet.slots() == 2
    assert fleet.progressing == ("False", names.REASON_HELD)
    assert "allowed: at most 7" in fleet.condition("Progressing")["message"]
    fleet.edit(lambda it: it.set("spec.minAvailable", 7))
    fleet.rest()
    assert fleet.slots() == 0


def test_a_rejected_revision_is_not_tried_again_even_if_the_spec_leaves_and_comes_back() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.edit(lambda it: it.image(IMAGE))
    fleet.rest()
    assert fleet.progressing == ("True", names.REASON_COMPLETE)
    asked = len(fleet.asked)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.rest()
    assert fleet.slots() == 0
    assert len(fleet.asked) == asked
    assert fleet.progressing == ("False", names.REASON_REJECTED)


def test_retry_tries_a_rejected_revision_again() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    failed = fleet.run["id"]
    fleet.sees = "Measuring"
    fleet.ask("retry")
    fleet.until("Measuring", "1/2")
    assert fleet.run["id"] != failed
    assert "rejected" not in fleet.obj["status"]
    assert fleet.obj["status"]["request"]["id"] == "1"


@pytest.mark.parametrize(
    ("policy", "outcome", "slots"), [("Hold", None, 2), ("Abort", "Inconclusive", 0), ("Extend", None, 2)]
)
def test_inconclusive_at_the_end_is_as_the_step_says(policy: str, outcome: str | None, slots: int) -> None:
    fleet = changed(steps=[{**HOLD[0], "onInconclusive": policy}])
    fleet.until("Measuring")
    begun = fleet.now
    fleet.until("Ended" if outcome else "Judging")
    fleet.rest(600)
    assert fleet.slots() == slots
    assert (fleet.now - begun).total_seconds() >= (600 if policy == "Extend" else 300)
    assert "rejected" not in fleet.obj["status"]
    assert [each["outcome"] for each in fleet.obj["status"].get("verdicts", ())] == ([outcome] if outcome else [])
    assert fleet.condition("RolloutHealthy")["status"] == "False"


def test_a_held_run_can_be_promoted_or_aborted_by_hand() -> None:
    for verb, slots in (("promote", 8), ("abort", 0)):
        fleet = changed(steps=HOLD)
        fleet.until("Judging")
        fleet.rest()
        fleet.ask(verb, reason="seen enough")
        fleet.rest()
        assert fleet.slots() == slots
        verdict = fleet.obj["status"]["verdicts"][-1]
        assert "alice (unverified)" in verdict["message"]
        assert "seen enough" in verdict["message"]


@pytest.mark.parametrize(("replicas", "possible"), [(1, 3), (2, 3)])
def test_one_slot_too_few_is_said_and_nothing_moves(replicas: int, possible: int) -> None:
    fleet = changed(replicas, steps=[{"slots": 1}])
    for _ in range(5):
        fleet.turn()
    assert fleet.slots() == 0
    assert fleet.asked == []
    said = fleet.condition("Progressing")
    assert (said["status"], said["reason"]) == ("False", names.REASON_UNFIT)
    assert f"Raise spec.replicas to {possible}" in said["message"]


def test_invalid_later_gives_slots_back_and_rejects_nothing() -> None:
    fleet = changed()
    fleet.until("Measuring", "2/2")
    fleet.sees = "Invalid(ForeignSeries)"
    fleet.until("Ended")
    fleet.rest()
    assert fleet.slots() == 0
    assert "rejected" not in fleet.obj["status"]
    assert fleet.obj["status"]["verdicts"][-1]["outcome"] == "Invalid"
    assert fleet.progressing == ("False", names.REASON_RUN_ENDED)


@pytest.mark.parametrize("kind", ["NoData", "BackendDown"])
def test_missing_metrics_hold_the_same_slots_and_it_goes_on_when_they_are_back(kind: str) -> None:
    fleet = changed(steps=[{"slots": 2, "minDuration": "5m", "maxDuration": "40m"}])
    fleet.until("Measuring")
    fleet.backend = kind
    for _ in range(20):
        fleet.turn()
    assert fleet.slots() == 2
    assert fleet.condition("MetricsAvailable")["reason"] == kind
    fleet.backend, fleet.sees = "up", "Pass(WithinMargin)"
    fleet.rest()
    assert fleet.slots() == 8
    assert fleet.condition("MetricsAvailable")["status"] == "True"


def test_metrics_that_never_come_back_are_inconclusive_at_the_end() -> None:
    fleet = changed(steps=[{**HOLD[0], "onInconclusive": "Abort"}])
    fleet.until("Measuring")
    fleet.backend = "BackendDown"
    fleet.until("Ended")
    verdict = fleet.obj["status"]["verdicts"][-1]
    assert (verdict["outcome"], verdict["reason"]) == ("Inconclusive", "NoData")


def test_a_spec_changed_in_the_middle_ends_the_run_and_begins_another_from_stable() -> None:
    fleet = changed()
    old, first = fleet.stable(), IMAGE.replace("engine@", "engine-c@")
    fleet.until("Measuring", "1/2")
    before = fleet.run["id"]
    fleet.edit(lambda it: it.image(first))
    fleet.until("Swapping")
    assert fleet.run["id"] != before
    assert fleet.slots() == 0
    assert fleet.stable() == old
    assert fleet.obj["status"]["verdicts"][-1]["outcome"] == "Cancelled"


def test_a_revert_cancels_the_run() -> None:
    fleet = changed()
    fleet.until("Measuring", "2/2")
    fleet.edit(lambda it: it.image(IMAGE))
    fleet.rest()
    assert fleet.slots(IMAGE) == 8
    assert fleet.obj["status"]["verdicts"][-1]["outcome"] == "Cancelled"
    assert "run" not in fleet.obj["status"]
    assert fleet.progressing == ("True", names.REASON_COMPLETE)


def test_gates_changed_in_the_middle_are_another_plan() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    before = fleet.run["id"]
    fleet.edit(lambda it: it.set("spec.gates", [{"name": "drafter", "metric": "drafterGpuSpan", "margin": "5%"}]))
    fleet.rest()
    assert fleet.run["id"] != before
    assert fleet.obj["status"]["verdicts"][-1]["reason"] == "PlanChanged"
    assert "rejected" not in fleet.obj["status"]


def test_scaling_keeps_the_run() -> None:
    fleet = changed()
    fleet.until("Measuring", "2/2")
    before = fleet.run["id"]
    fleet.edit(lambda it: it.replicas(10))
    for _ in range(4):
        fleet.turn()
    assert fleet.run["id"] == before
    assert fleet.slots() == 2
    assert sum(fleet.replicas().values()) == 10


def test_scaling_down_never_leaves_a_candidate_alone() -> None:
    fleet = changed()
    old = fleet.stable()
    fleet.until("Measuring", "2/2")
    fleet.edit(lambda it: it.replicas(1))
    for _ in range(30):
        fleet.turn()
        assert fleet.replicas().get(old, 0) >= 1
    assert fleet.replicas().get(old) == 1
    assert fleet.slots() == 0
    fleet.edit(lambda it: it.replicas(0))
    for _ in range(5):
        fleet.turn()
    fleet.edit(lambda it: it.replicas(3))
    for _ in range(5):
        fleet.turn()
    assert fleet.stable() == old
    assert fleet.replicas()[old] >= 2


def test_a_pause_begins_no_swap_and_a_resume_goes_on() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.ask("pause")
    for _ in range(60):
        fleet.turn()
    assert fleet.run["step"] == "1/2"
    assert fleet.progressing[1] == names.REASON_PAUSED
    fleet.ask("resume", id="2")
    fleet.until("Measuring", "2/2")


def test_a_run_that_ends_while_nothing_serves_makes_nobody_stable() -> None:
    fleet = changed(steps=HOLD)
    old = fleet.stable()
    fleet.until("Measuring")
    fleet.edit(lambda it: it.replicas(0))
    fleet.rest()
    fleet.ask("abort")
    for _ in range(3):
        fleet.turn(1)
        assert fleet.stable() == old
    assert fleet.run["phase"] == "Ended"


def test_a_run_that_ends_just_when_a_fleet_comes_back_from_zero_gives_the_candidate_nothing() -> None:
    fleet = changed(steps=HOLD)
    fleet.until("Measuring")
    fleet.edit(lambda it: it.replicas(0))
    fleet.rest()
    fleet.ask("abort")
    fleet.edit(lambda it: it.replicas(8))
    fleet.reconcile()
    assert fleet.slots() == 0
    fleet.rest()
    assert fleet.slots(IMAGE) == 8


def test_a_canary_that_is_paused_from_the_start_is_registered_and_moves_nothing() -> None:
    fleet = changed(paused=True)
    fleet.rest()
    assert fleet.run["plan"] in {name for _, name in fleet.children}
    assert fleet.slots() == 0
    fleet.edit(lambda it: it.set("spec.rollout.paused", False))
    fleet.until("Measuring", "1/2")


def test_a_paused_run_isnt_promoted_before_it_goes_on() -> None:
    fleet = changed(steps=[{**HOLD[0], "maxDuration": "20m"}])
    fleet.until("Measuring")
    fleet.edit(lambda it: it.set("spec.rollout.paused", True))
    fleet.sees = "Pass(WithinMargin)"
    for _ in range(20):
        fleet.turn()
    assert fleet.slots() == 2
    fleet.edit(lambda it: it.set("spec.rollout.paused", False))
    fleet.until("Promoting")


def test_nothing_is_done_on_what_was_not_yet_written_down() -> None:
    """A record that couldn't be written must not have been acted on."""
    fleet = changed()
    for sees, phase in (("Measuring", "Measuring"), ("Fail(BeyondMargin)", "Ended")):
        fleet.sees = sees
        while fleet.obj["status"].get("run", {}).get("phase") != phase:
            fleet.round()
            fleet.answer()
            kinds = {each.manifest["kind"] for each in fleet.planned().actions if isinstance(each, Apply)}
            assert "ConfigMap" not in kinds or not kinds & {"ReplicaSet", "HTTPRoute"}
            fleet.reconcile()
            fleet.pass_time(20)


def test_a_paused_run_still_fails() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.edit(lambda it: it.set("spec.rollout.paused", True))
    fleet.sees = "Fail(BeyondMargin)"
    fleet.rest()
    assert fleet.slots() == 0


def test_a_request_for_another_run_is_refused_by_name() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.ask("promote", run="elsewhere")
    for _ in range(3):
        fleet.turn()
    assert fleet.slots() == 1
    assert "found elsewhere" in fleet.obj["status"]["request"]["refused"]


def test_a_request_is_applied_once() -> None:
    fleet = changed(steps=HOLD)
    fleet.until("Judging")
    fleet.ask("abort")
    fleet.rest()
    ended = fleet.run["id"]
    fleet.ask("retry", id="2")
    fleet.until("Measuring")
    assert fleet.run["id"] != ended
    assert [each["outcome"] for each in fleet.obj["status"]["verdicts"]] == ["Aborted"]


def test_an_unknown_verb_is_refused_with_those_that_are_known() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.ask("explode")
    fleet.turn()
    assert "promote, abort, pause, resume, retry" in fleet.obj["status"]["request"]["refused"]


def test_a_candidate_that_never_gets_ready_is_aborted_with_its_last_words() -> None:
    fleet = changed()
    fleet.bad_images.add(OTHER_IMAGE)
    fleet.until("Swapping")
    for _ in range(120):
        fleet.turn(60)
        if fleet.run["phase"] == "Ended":
            break
    fleet.rest()
    verdict = fleet.obj["status"]["verdicts"][-1]
    assert (verdict["outcome"], verdict["reason"]) == ("Aborted", "NeverReady")
    assert fleet.slots() == 0


def test_an_engine_that_attests_something_else_ends_the_run() -> None:
    from specdecode_operator.plan.testimony import Absent

    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.lies[OTHER_IMAGE] = Absent(404)
    fleet.rest()
    assert fleet.slots() == 0
    assert fleet.obj["status"]["verdicts"][-1]["reason"] == names.REASON_DIFFERS
    assert "rejected" not in fleet.obj["status"]


@pytest.mark.parametrize("what", ["plan", "run"])
def test_a_plan_or_record_that_somebody_deletes_ends_the_run(what: str) -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    name = (names.run_plan if what == "plan" else names.run_record)("demo", fleet.run["id"])
    del fleet.children[("ConfigMap", name)]
    fleet.turn()
    fleet.turn()
    verdict = fleet.obj["status"]["verdicts"][-1]
    assert (verdict["outcome"], verdict["reason"]) == ("Invalid", "PlanChanged")


def test_the_slots_of_the_plans_trays_go_first() -> None:
    fleet = changed()
    while fleet.slots() == 0 or not fleet.pods_of(fleet.obj["status"]["candidate"]["revision"]):
        fleet.turn()
    (pod,) = fleet.pods_of(fleet.obj["status"]["candidate"]["revision"])
    assert pod["spec"]["nodeName"] == "node-7"


def test_a_pod_lost_before_the_first_window_starts_the_step_anew() -> None:
    fleet = changed(steps=HOLD)
    fleet.until("Settling")
    while fleet.record["steps"][-1] is None:
        fleet.turn(1)
    start = fleet.record["steps"][-1]["start"]
    pod = fleet.pods_of(fleet.obj["status"]["candidate"]["revision"])[0]
    fleet.set_ready(pod, False)
    fleet.reconcile()
    fleet.reconcile()
    fleet.until("Measuring")
    assert fleet.record["steps"][-1]["start"] > start


def test_a_refused_spec_leaves_the_run_where_it_is() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    before = fleet.run["id"]
    fleet.edit(lambda it: it.args("--port", "1"))
    for _ in range(5):
        fleet.turn()
    assert fleet.run["id"] == before
    assert fleet.slots() == 1


def test_steps_by_percentage_count_slots_up() -> None:
    fleet = changed(steps=[{**STEPS[0], "slots": "10%"}, {**STEPS[1], "slots": "25%"}])
    fleet.until("Measuring", "1/2")
    assert fleet.slots() == 1
    fleet.until("Measuring", "2/2")
    assert fleet.slots() == 2


def test_only_the_last_runs_are_kept() -> None:
    fleet = changed()
    for number in range(7):
        fleet.until("Swapping")
        fleet.ask("abort", id=f"a{number}")
        fleet.until("Ended")
        fleet.rest()
        fleet.ask("retry", id=f"r{number}")
        fleet.turn()
    fleet.turn()
    kept = [name for kind, name in fleet.children if kind == "ConfigMap"]
    assert len([name for name in kept if "-run-" in name]) == 5
    assert len([name for name in kept if "-plan-" in name]) == 5
