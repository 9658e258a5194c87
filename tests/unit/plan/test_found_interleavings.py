"""What `tests/property/plan/test_any_interleaving.py` once found wrong, each as plain as it gets."""

import pytest
from builders import IMAGE, deployment
from fleet import Fleet

from specdecode_operator.plan.testimony import Silence


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
