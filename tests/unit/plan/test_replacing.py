"""A changed spec replaces slot by slot: what moves, in what order, and what holds it."""

import contextlib
import copy
from collections.abc import Iterator

import pytest
from builders import IMAGE, OTHER_IMAGE, DeploymentBuilder, deployment
from fleet import Crashed, Fleet, image_of, is_ready, terminating

from specdecode_operator.api import names
from specdecode_operator.plan.actions import Apply, Patch


def three() -> DeploymentBuilder:
    return deployment().replicas(3).behind("edge")


@pytest.fixture
def serving() -> Fleet:
    """Three slots of the first revision, at rest."""
    fleet = Fleet.of(three())
    fleet.settle()
    return fleet


def rounds(fleet: Fleet, count: int = 60) -> Iterator[Fleet]:
    """The fleet after each round, until it rests."""
    for _ in range(count):
        yield fleet
        before = dict(fleet.obj["status"])
        if not fleet.round().actions and before == fleet.obj["status"]:
            return
    pytest.fail(f"not at rest: {fleet.obj['status']}")


def test_the_first_revision_is_stable_at_once() -> None:
    fleet = Fleet.of(three())
    fleet.reconcile()
    assert fleet.obj["status"]["stable"]["revision"] == next(iter(fleet.replicas()))
    assert "candidate" not in fleet.obj["status"]


def test_it_is_complete_only_once_all_slots_have_settled_and_are_routed_to() -> None:
    fleet = Fleet.of(three())
    fleet.reconcile()
    fleet.replicaset_controller()
    fleet.kubelet()
    fleet.endpoints_controller()
    fleet.reconcile()
    assert fleet.routed() == {}
    assert fleet.condition("Progressing")["reason"] == names.REASON_STARTING
    assert fleet.condition("Progressing")["message"] == "3 of 3 slots serve. 0 of 3 have settled."
    fleet.settle()
    assert fleet.condition("Progressing")["reason"] == names.REASON_COMPLETE
    assert list(fleet.routed().values()) == [3]


def test_at_rest_there_is_nothing_to_do(serving: Fleet) -> None:
    made = serving.planned()
    assert made.actions == ()
    assert made.events == ()
    assert made.requeue_after is None


def test_a_new_image_takes_all_slots_and_the_old_revision_leaves_only_its_frozen_self(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    assert {image_of(pod) for pod in serving.pods.values()} == {OTHER_IMAGE}
    assert list(serving.replicas().values()) == [3]
    assert ("Service", f"demo-{old}") not in serving.children
    assert ("ControllerRevision", f"demo-{old}") in serving.children
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE
    assert "run" not in serving.obj["status"]


def test_one_slot_at_a_time_and_never_more_pods_than_slots(serving: Fleet) -> None:
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    for fleet in rounds(serving):
        assert fleet.serving() >= 2
        assert len(fleet.pods) <= 3


def test_the_new_pod_starts_only_when_the_old_one_is_really_gone(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    for _ in ("makes its workload", "marks the slot", "gives it up"):
        serving.reconcile()
    serving.replicaset_controller()
    assert any(terminating(pod) for pod in serving.pods.values())
    for _ in range(3):
        serving.pass_time(60)
        serving.reconcile()
        assert sum(serving.replicas().values()) == 2
    assert "is gone and its slot is free" in serving.obj["status"]["run"]["message"]
    serving.kubelet()
    serving.reconcile()
    assert serving.replicas()[old] == 2
    assert sum(serving.replicas().values()) == 3


def test_the_pod_that_goes_next_is_marked_before_its_replicaset_shrinks(serving: Fleet) -> None:
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.reconcile()
    marks = [action for action in serving.reconcile().actions if isinstance(action, Patch) and action.kind == "Pod"]
    assert len(marks) == 1
    assert set(serving.replicas().values()) == {3, 0}
    serving.reconcile()
    serving.replicaset_controller()
    gone = next(pod for pod in serving.pods.values() if terminating(pod))
    assert gone["metadata"]["name"] == marks[0].name


def test_an_unready_pod_of_the_old_revision_goes_first(serving: Fleet) -> None:
    broken = next(iter(serving.pods.values()))
    serving.set_ready(broken, False)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.reconcile()
    serving.reconcile()
    serving.replicaset_controller()
    assert terminating(broken)
    assert serving.serving() == 2


def test_the_next_slot_waits_until_the_candidate_has_settled(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    while sum(count for rev, count in serving.replicas().items() if rev != old) == 0:
        serving.round()
    serving.replicaset_controller()
    serving.kubelet()
    serving.endpoints_controller()
    serving.pass_time(3)
    made = serving.reconcile()
    assert serving.replicas()[old] == 2
    assert made.requeue_after is not None
    assert made.requeue_after.total_seconds() == 2


def test_a_candidate_that_never_gets_ready_leaves_the_rest_serving(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.bad_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    assert serving.replicas()[old] == 2
    assert serving.serving() == 2
    assert serving.routed() == {old: 2}
    assert serving.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_candidate_that_the_api_server_refuses_costs_no_slot_no_mark_and_no_place_in_the_route(replicas: int) -> None:
    fleet = Fleet.of(three().replicas(replicas))
    fleet.settle()
    pods, children = copy.deepcopy(fleet.pods), (fleet.replicas(), fleet.routed())
    fleet.refused_images.add(OTHER_IMAGE)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    for _ in range(5):
        fleet.round()
    assert fleet.pods == pods
    assert (fleet.replicas(), fleet.routed()) == children
    assert fleet.condition("Progressing")["reason"] == names.REASON_CHILD_REFUSED


@pytest.mark.parametrize("replicas", [5, 2, 0])
def test_while_the_api_server_refuses_a_candidate_the_stable_revision_scales(serving: Fleet, replicas: int) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.refused_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.round()
    serving.edit(lambda it: it.replicas(replicas))
    for _ in range(6):
        serving.round()
    assert serving.replicas().get(old, 0) == serving.serving() == replicas


def test_a_refused_candidate_goes_on_once_the_api_server_takes_it(serving: Fleet) -> None:
    serving.refused_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE).replicas(4))
    serving.round()
    serving.refused_images.clear()
    serving.settle()
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE
    assert list(serving.replicas().values()) == [4]


def poisoned(fleet: Fleet) -> str:
    """A revision that was frozen with an annotation that the API server refuses."""
    fleet.refused_annotations.add("a b")
    fleet.edit(lambda it: it.image(OTHER_IMAGE).set("spec.template.annotations", {"a b": "x"}))
    fleet.round()
    fleet.round()
    revision: str = fleet.obj["status"]["candidate"]["revision"]
    assert f"demo-{revision}" in {name for kind, name in fleet.children if kind == "ControllerRevision"}
    return revision


def test_a_revision_that_no_pod_came_of_is_frozen_anew_when_its_annotations_are_put_right(serving: Fleet) -> None:
    revision = poisoned(serving)
    serving.edit(lambda it: it.without("spec.template.annotations"))
    serving.settle()
    assert serving.obj["status"]["stable"]["revision"] == revision
    assert serving.replicas() == {revision: 3}


@pytest.mark.parametrize("image", [IMAGE, OTHER_IMAGE])
def test_a_first_revision_that_the_api_server_refuses_serves_once_its_annotations_are_put_right(image: str) -> None:
    fleet = Fleet.of(three().set("spec.template.annotations", {"a b": "x"}))
    fleet.refused_annotations.add("a b")
    fleet.round()
    fleet.round()
    assert fleet.pods == {}
    fleet.edit(lambda it: it.without("spec.template.annotations").image(image))
    fleet.settle()
    assert list(fleet.replicas().values()) == [3]
    assert fleet.obj["status"]["stable"]["image"] == image


@pytest.mark.parametrize("writes", range(1, 6))
def test_an_operator_killed_while_it_freezes_a_revision_anew_ends_the_same(serving: Fleet, writes: int) -> None:
    revision = poisoned(serving)
    serving.edit(lambda it: it.without("spec.template.annotations"))
    for _ in range(2):
        with contextlib.suppress(Crashed):
            serving.reconcile(writes=writes)
    serving.settle()
    assert serving.replicas() == {revision: 3}


def test_a_revision_that_pods_came_of_is_never_frozen_anew_for_a_label(serving: Fleet) -> None:
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.reconcile()
    frozen = {name: copy.deepcopy(item) for (kind, name), item in serving.children.items() if "Revision" in kind}
    serving.edit(lambda it: it.set("spec.template.labels", {"team": "a"}))
    serving.settle()
    assert {name: serving.children[("ControllerRevision", name)] for name in frozen} == frozen


def test_slots_that_come_with_a_new_revision_wait_for_its_workload(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE).replicas(4))
    serving.reconcile()
    assert serving.replicas()[old] == 3
    serving.reconcile()
    assert serving.replicas()[old] == 3
    assert sum(serving.replicas().values()) == 4


def test_a_revert_takes_the_slots_back_without_touching_serving_pods(serving: Fleet) -> None:
    serving.bad_images.add(OTHER_IMAGE)
    image = image_of(next(iter(serving.pods.values())))
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    survivors = {uid for uid, pod in serving.pods.items() if is_ready(pod)}
    serving.edit(lambda it: it.image(image))
    for fleet in rounds(serving):
        assert survivors <= set(fleet.pods)
    assert list(serving.replicas().values()) == [3]
    assert {image_of(pod) for pod in serving.pods.values()} == {image}


def test_a_third_revision_takes_the_slots_of_the_second_first(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.bad_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    serving.edit(lambda it: it.args("--max-model-len", "1024").image(image_of(serving.pods_of(old)[0])))
    for fleet in rounds(serving):
        assert fleet.serving() >= 2
    assert list(serving.replicas().values()) == [3]
    assert serving.obj["status"]["stable"]["revision"] not in (old,)


def test_the_route_names_a_revision_only_between_its_first_settled_and_its_last_draining_slot(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    seen = []
    for fleet in rounds(serving):
        if not seen or seen[-1] != fleet.routed():
            seen.append(fleet.routed())
        for revision in fleet.routed():
            assert fleet.replicas()[revision] >= 1
    new = serving.obj["status"]["stable"]["revision"]
    assert seen[0] == {old: 3}
    assert seen[-1] == {new: 3}
    assert {old: 2, new: 1} in seen


def test_the_last_slot_drains_only_after_the_gateway_took_the_revision_out(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    while serving.replicas().get(old) != 1 or old in serving.routed():
        serving.round()
    serving.gateway_up = False
    for _ in range(5):
        serving.pass_time(60)
        serving.reconcile()
    assert serving.replicas()[old] == 1
    serving.gateway_up = True
    serving.settle()
    assert old not in serving.replicas()


def test_one_replica_leaves_the_route_before_it_drains() -> None:
    fleet = Fleet.of(three().replicas(1))
    fleet.settle()
    old = fleet.obj["status"]["stable"]["revision"]
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    for each in rounds(fleet):
        if each.replicas().get(old, 0) == 0:
            assert old not in each.routed()
    assert fleet.routed() == {fleet.obj["status"]["stable"]["revision"]: 1}
    assert fleet.obj["status"]["stable"]["image"] == OTHER_IMAGE


def test_min_available_that_leaves_no_slot_to_give_up_is_said_and_nothing_moves() -> None:
    fleet = Fleet.of(three().set("spec.minAvailable", 3))
    fleet.settle()
    pods = set(fleet.pods)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.settle()
    assert set(fleet.pods) == pods
    progressing = fleet.condition("Progressing")
    assert (progressing["status"], progressing["reason"]) == ("False", names.REASON_HELD)
    assert "spec.minAvailable" in progressing["message"]


def test_a_stable_pod_that_is_down_holds_the_next_swap(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    while serving.replicas().get(old) != 2 or sum(serving.replicas().values()) != 3:
        serving.round()
    serving.replicaset_controller()
    serving.kubelet()
    serving.endpoints_controller()
    for pod in serving.pods_of(old):
        serving.set_ready(pod, False)
    serving.pass_time(30)
    serving.reconcile()
    serving.gateway()
    before = serving.serving_for_good()
    serving.reconcile()
    assert serving.serving_for_good() == before


def test_scaling_up_while_the_candidate_is_bad_gives_slots_to_stable(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.bad_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    serving.edit(lambda it: it.replicas(5))
    serving.settle()
    assert serving.replicas()[old] == 4
    assert serving.serving() == 4


def test_scaling_down_takes_a_candidate_that_does_not_serve_before_a_pod_that_does() -> None:
    fleet = Fleet.of(three().replicas(2))
    fleet.settle()
    old = fleet.obj["status"]["stable"]["revision"]
    fleet.bad_images.add(OTHER_IMAGE)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.settle()
    (survivor,) = (uid for uid, pod in fleet.pods.items() if is_ready(pod))
    fleet.edit(lambda it: it.replicas(1))
    fleet.reconcile()
    fleet.replicaset_controller()
    assert not terminating(fleet.pods[survivor])
    assert {old: 1}.items() <= fleet.replicas().items()
    assert sum(fleet.replicas().values()) == 1


@pytest.mark.parametrize(("least", "serves"), [(None, 1), (2, 2)])
def test_after_scaling_down_a_failed_replacement_begins_anew_within_min_available(
    serving: Fleet, least: int | None, serves: int
) -> None:
    serving.bad_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    assert serving.serving() == 2
    serving.edit(lambda it: it.replicas(2) if least is None else it.replicas(2).set("spec.minAvailable", least))
    serving.settle()
    assert serving.serving() == serves
    assert serving.condition("Progressing")["reason"] == (
        names.REASON_REPLACING if least is None else names.REASON_HELD
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_of_what_serves_scaling_down_takes_the_candidate_last(replicas: int) -> None:
    fleet = Fleet.of(three())
    fleet.settle()
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    while fleet.routed().get(fleet.obj["status"].get("candidate", {}).get("revision")) != 1:
        fleet.round()
    new = fleet.obj["status"]["candidate"]["revision"]
    fleet.edit(lambda it: it.replicas(replicas))
    for each in rounds(fleet):
        assert each.replicas()[new] >= 1
    assert fleet.replicas() == {new: replicas}


def test_scaling_down_while_replacing_ends_with_the_new_revision_alone(serving: Fleet) -> None:
    serving.edit(lambda it: it.replicas(5))
    serving.settle()
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    for _ in range(8):
        serving.round()
    serving.edit(lambda it: it.replicas(2))
    serving.settle()
    assert list(serving.replicas().values()) == [2]
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE


def test_scaling_to_zero_empties_the_route_first(serving: Fleet) -> None:
    serving.edit(lambda it: it.replicas(0))
    serving.reconcile()
    assert serving.routed() == {}
    assert list(serving.replicas().values()) == [3]
    serving.settle()
    assert serving.pods == {}
    assert serving.condition("Ready")["reason"] == names.REASON_SCALED_TO_ZERO


def test_scaling_alone_makes_no_revision(serving: Fleet) -> None:
    serving.edit(lambda it: it.replicas(5))
    serving.settle()
    assert len([key for key in serving.children if key[0] == "ControllerRevision"]) == 1


def test_a_lost_status_is_told_anew_by_the_children(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.bad_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    known = {role: serving.obj["status"][role]["revision"] for role in ("stable", "candidate")}
    serving.lose_status()
    serving.reconcile()
    assert {role: serving.obj["status"][role]["revision"] for role in known} == known
    assert serving.obj["status"]["stable"]["revision"] == old


def test_a_workload_deleted_while_replacing_comes_back_with_the_slots_it_had(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    serving.bad_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    for pod in serving.pods_of(old):
        serving.terminate(pod)
    del serving.children[("ReplicaSet", f"demo-{old}")]
    serving.settle()
    assert serving.replicas()[old] == 2
    assert serving.serving() == 2


def test_pods_of_a_revision_that_nothing_is_left_of_hold_nobody_up(serving: Fleet) -> None:
    old = serving.obj["status"]["stable"]["revision"]
    del serving.children[("ReplicaSet", f"demo-{old}")]
    del serving.children[("ControllerRevision", f"demo-{old}")]
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    assert list(serving.replicas().values()) == [3]
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE


@pytest.mark.parametrize("writes", range(1, 9))
def test_an_operator_killed_after_any_write_of_the_first_reconcile_ends_the_same(writes: int) -> None:
    undisturbed = Fleet.of(three())
    undisturbed.settle()
    fleet = Fleet.of(three())
    with contextlib.suppress(Crashed):
        fleet.reconcile(writes=writes)
    fleet.settle()
    assert set(fleet.children) == set(undisturbed.children)
    assert fleet.replicas() == undisturbed.replicas()


def test_scaling_writes_carry_the_version_they_were_planned_from(serving: Fleet) -> None:
    serving.edit(lambda it: it.replicas(4))
    scaled = [a for a in serving.planned().actions if isinstance(a, Apply) and a.manifest["kind"] == "ReplicaSet"]
    assert [action.if_version for action in scaled] == [serving.workloads()[0]["metadata"]["resourceVersion"]]
