"""What `tests/property/plan/test_any_interleaving.py` once found wrong, each as plain as it gets."""

import pytest
from builders import IMAGE, OTHER_IMAGE, deployment
from fleet import Fleet, terminating

from specdecode_operator.plan.testimony import Garbled, Silence


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
