"""What `tests/property/plan/test_any_interleaving.py` once found wrong, each as plain as it gets."""

import json
from typing import Any

import pytest
from builders import IMAGE, OTHER_IMAGE, deployment
from fleet import Fleet, attestation, terminating

from specdecode_operator.plan.testimony import Attestation, Garbled, Silence, read

Json = dict[str, Any]


@pytest.fixture
def serving() -> Fleet:
    """Three slots of one revision, attested and at rest."""
    fleet = Fleet.of(deployment().replicas(3).behind("edge"))
    fleet.settle()
    return fleet


def stable(fleet: Fleet) -> str:
    known: str = fleet.obj["status"]["stable"]["revision"]
    return known


def delete_workload(fleet: Fleet, revision: str) -> None:
    """Garbage collection takes the pods with it."""
    del fleet.children[("ReplicaSet", f"demo-{revision}")]
    for pod in fleet.pods_of(revision):
        fleet.terminate(pod)


# --- A frozen revision that is lost says nothing of what its pods must attest -----------------------------------------


def test_a_revision_whose_frozen_self_is_lost_before_it_attested_stays_out_of_the_route() -> None:
    fleet = Fleet.of(deployment().replicas(2).behind("edge"))
    fleet.lies[IMAGE] = Silence("nothing within 5 s")
    fleet.round()
    (revision,) = fleet.replicas()
    fleet.edit(lambda it: it.args("--port", "1"))
    del fleet.children[("ControllerRevision", f"demo-{revision}")]
    fleet.settle()
    assert fleet.serving() == 2, "ready they are"
    assert fleet.routed() == {}, "and nothing of them is attested"
    fleet.edit(lambda it: it.args())
    fleet.lies.clear()
    fleet.settle()
    assert fleet.routed() == {revision: 2}


def test_a_revision_whose_frozen_self_is_lost_while_it_serves_stays_in_the_route(serving: Fleet) -> None:
    revision = stable(serving)
    serving.edit(lambda it: it.args("--port", "1"))
    del serving.children[("ControllerRevision", f"demo-{revision}")]
    serving.settle()
    assert serving.routed() == {revision: 3}


# --- A slot that was given up isn't there to come back ----------------------------------------------------------------


def test_a_workload_deleted_before_its_last_slot_went_does_not_keep_that_slot_for_ever(serving: Fleet) -> None:
    first = stable(serving)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    while first in serving.routed():
        serving.round()
    serving.gateway()
    delete_workload(serving, first)
    serving.settle()
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE
    assert serving.replicas() == {stable(serving): 3}
    assert serving.serving() == 3


def test_a_workload_does_not_come_back_with_the_slot_that_a_pod_taken_out_still_holds(serving: Fleet) -> None:
    first = stable(serving)
    serving.lies[OTHER_IMAGE] = Garbled("noise")
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    serving.edit(lambda it: it.image(IMAGE))
    for revision in list(serving.replicas()):
        delete_workload(serving, revision)
    serving.obj["status"]["stable"]["slots"] = 3
    serving.reconcile()
    assert [terminating(pod) for pod in serving.pods.values()] == [True] * 3
    assert serving.replicas()[first] == 2
    serving.settle()
    assert serving.replicas() == {first: 3}


def test_no_slot_is_given_up_in_the_plan_that_lets_its_pods_back(serving: Fleet) -> None:
    """That plan still counts them as lost already, and would take a pod that serves again."""
    first = stable(serving)
    serving.edit(lambda it: it.set("spec.minAvailable", 3))
    serving.lies[IMAGE] = Garbled("noise")
    serving.reconcile()
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.lies.clear()
    serving.reconcile()
    assert serving.serving() == 3
    assert serving.replicas()[first] == 3
    serving.settle()
    assert serving.serving() == 3


# --- Pods that are left behind ----------------------------------------------------------------------------------------


def replicaset(fleet: Fleet, revision: str) -> Json:
    return fleet.children[("ReplicaSet", f"demo-{revision}")]


def test_a_pod_that_was_left_behind_after_its_slot_was_given_up_is_adopted_and_goes(serving: Fleet) -> None:
    first = stable(serving)
    serving.edit(lambda it: it.without("spec.traffic"))
    serving.settle()
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    while serving.replicas()[first] != 1:
        serving.round()
    serving.orphan(replicaset(serving, first))
    second = serving.obj["status"]["candidate"]["revision"]
    replicaset(serving, second)["spec"]["replicas"] = 3
    serving.settle()
    assert serving.replicas() == {second: 3}
    assert len(serving.pods) == 3


@pytest.mark.parametrize("least", [0, 2])
def test_pods_whose_workload_and_frozen_self_are_both_gone_serve_on_and_give_up_one_slot_after_another(
    serving: Fleet, least: int
) -> None:
    first, other = stable(serving), IMAGE.replace("engine@", "engine-b@")
    serving.refused_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.image(OTHER_IMAGE).set("spec.minAvailable", least))
    serving.settle()
    del serving.children[("ControllerRevision", f"demo-{first}")]
    serving.orphan(replicaset(serving, first))
    serving.settle()
    assert (serving.serving(), set(serving.routed())) == (3, {first})
    serving.edit(lambda it: it.image(other))
    for _ in range(20):
        serving.round()
        assert serving.serving() >= 2
    assert serving.pods_of(first) == []
    serving.settle()
    assert serving.obj["status"]["stable"]["image"] == other
    assert [serving.serving(), len(serving.pods)] == [3, 3]


def test_pods_that_garbage_collection_is_about_to_take_are_left_to_it(serving: Fleet) -> None:
    first, pods = stable(serving), set(serving.pods)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.reconcile()
    del serving.children[("ControllerRevision", f"demo-{first}")]
    del serving.children[("ReplicaSet", f"demo-{first}")]
    for _ in range(6):
        serving.endpoints_controller()
        serving.gateway()
        serving.reconcile()
    assert not [uid for uid in pods if terminating(serving.pods[uid])]


def test_pods_of_a_revision_that_is_frozen_again_are_left_to_its_workload(serving: Fleet) -> None:
    first = stable(serving)
    del serving.children[("ControllerRevision", f"demo-{first}")]
    serving.orphan(replicaset(serving, first))
    serving.edit(lambda it: it.replicas(1))
    serving.reconcile()
    assert [terminating(pod) for pod in serving.pods.values()] == [False] * 3
    serving.settle()
    assert (serving.replicas(), len(serving.pods)) == ({first: 1}, 1)


# --- While the API server refuses what is asked for -------------------------------------------------------------------


def test_from_zero_the_stable_revision_scales_up_while_the_candidate_is_refused(serving: Fleet) -> None:
    first = stable(serving)
    serving.refused_images.add(OTHER_IMAGE)
    serving.edit(lambda it: it.replicas(0))
    serving.settle()
    serving.edit(lambda it: it.image(OTHER_IMAGE).replicas(2))
    serving.settle()
    assert serving.routed() == {first: 2}
    serving.refused_images.clear()
    serving.settle()
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE


def test_from_zero_a_candidate_that_is_taken_needs_no_pod_of_the_stable_revision(serving: Fleet) -> None:
    first = stable(serving)
    serving.edit(lambda it: it.replicas(0))
    serving.settle()
    serving.edit(lambda it: it.image(OTHER_IMAGE).replicas(2))
    while serving.serving() < 2:
        serving.round()
        assert serving.pods_of(first) == []


def test_a_failing_revisions_slot_goes_back_while_the_next_one_is_refused(serving: Fleet) -> None:
    first, third = stable(serving), IMAGE.replace("engine@", "engine-b@")
    serving.bad_images.add(OTHER_IMAGE)
    serving.refused_images.add(third)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    assert serving.serving() == 2
    serving.edit(lambda it: it.image(third))
    serving.settle()
    assert serving.routed() == {first: 3}


def test_slots_go_back_to_a_stable_revision_whose_workload_is_gone_too(serving: Fleet) -> None:
    first, third = stable(serving), IMAGE.replace("engine@", "engine-b@")
    serving.bad_images.add(OTHER_IMAGE)
    serving.refused_images.add(third)
    serving.edit(lambda it: it.replicas(1))
    serving.settle()
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    serving.edit(lambda it: it.image(third))
    serving.reconcile()
    delete_workload(serving, first)
    serving.settle()
    assert serving.routed() == {first: 1}


# --- The route --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1, 9])
def test_a_revision_that_was_added_to_the_route_by_hand_is_taken_out_until_it_is_fit(
    serving: Fleet, weight: int
) -> None:
    first = stable(serving)
    serving.lies[OTHER_IMAGE] = Silence("nothing within 5 s")
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    second = serving.obj["status"]["candidate"]["revision"]
    serving.smuggle(second)
    assert serving.route is not None
    serving.route["spec"]["rules"][0]["backendRefs"][-1]["weight"] = weight
    serving.settle()
    assert set(serving.routed()) == {first}


# --- An answer that isn't understood is no attestation ----------------------------------------------------------------


def answered(fleet: Fleet, body: str) -> None:
    said = read(200, body.encode())
    fleet.lies[OTHER_IMAGE] = said
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.settle()


def truth(fleet: Fleet) -> dict[str, object]:
    said = attestation(next(iter(fleet.pods.values())))
    assert isinstance(said, Attestation)
    rows = [{"name": name, "state": state} for name, state in said.states.items()]
    return {
        "ok": said.ok,
        "release": said.release,
        "manifest_digest": said.manifest_digest,
        "optimizations": rows,
        "findings": [],
    }


def test_the_truth_is_understood(serving: Fleet) -> None:
    answered(serving, json.dumps(truth(serving)))
    assert serving.obj["status"]["stable"]["image"] == OTHER_IMAGE


GARBLED = {
    "it is ok and it isn't": ('"ok": true', '"ok": false, "ok": true', "says one thing twice"),
    "two manifests": ('"release"', '"manifest_digest": "f", "release"', "says one thing twice"),
    "one optimization twice": (
        '"optimizations": [',
        '"optimizations": [{"name": "telemetry", "state": "disabled"}, ',
        "one optimization twice",
    ),
    "ok, and something was found": (
        '"findings": []',
        '"findings": [{"subject": "vllm/x.py", "reason": "edited"}]',
        "finds its own files wrong: vllm/x.py: edited",
    ),
}


@pytest.mark.parametrize(("part", "instead", "words"), GARBLED.values(), ids=GARBLED)
def test_an_answer_that_contradicts_itself_is_not_attested_and_that_is_said(
    serving: Fleet, part: str, instead: str, words: str
) -> None:
    first = stable(serving)
    body = json.dumps(truth(serving))
    assert part in body
    answered(serving, body.replace(part, instead, 1))
    assert set(serving.routed()) == {first}
    assert (serving.condition("Attested")["status"], serving.condition("Progressing")["status"]) == ("False", "False")
    assert words in serving.condition("Attested")["message"]
