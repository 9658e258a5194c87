"""What `tests/property/plan/test_any_interleaving.py` once found wrong, each as plain as it gets."""

import json

import pytest
from builders import IMAGE, OTHER_IMAGE, deployment
from fleet import Fleet, attestation, terminating

from specdecode_operator.plan.testimony import Attestation, Garbled, Silence, read


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
