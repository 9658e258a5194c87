"""What others do to children and status by hand costs no serving pod and no request, and is put right."""

from typing import Any

import pytest
from builders import OTHER_IMAGE, deployment
from fleet import Fleet

from specdecode_operator.api import names
from specdecode_operator.plan.actions import Apply, Delete

Json = dict[str, Any]


@pytest.fixture
def serving() -> Fleet:
    """Three slots of one revision, at rest."""
    fleet = Fleet.of(deployment().replicas(3).behind("edge"))
    fleet.settle()
    return fleet


def revision(fleet: Fleet) -> str:
    known: str = fleet.obj["status"]["stable"]["revision"]
    return known


@pytest.mark.parametrize("kind", ["Service", "ReplicaSet", "ControllerRevision"])
@pytest.mark.parametrize("label", ["0123456789", None])
def test_a_childs_revision_label_comes_back_and_the_child_stays(serving: Fleet, kind: str, label: str | None) -> None:
    name, pods = f"demo-{revision(serving)}", set(serving.pods)
    child = serving.children[(kind, name)]
    uid = child["metadata"]["uid"]
    if label is None:
        del child["metadata"]["labels"][names.LABEL_REVISION]
    else:
        child["metadata"]["labels"][names.LABEL_REVISION] = label
    made = serving.planned()
    assert [type(action) for action in made.actions] != []
    assert not [action for action in made.actions if isinstance(action, Delete)]
    serving.settle()
    restored = serving.children[(kind, name)]["metadata"]
    assert restored["labels"][names.LABEL_REVISION] == revision(serving)
    assert restored["uid"] == uid
    assert set(serving.pods) == pods


def test_a_frozen_revision_that_lost_its_owner_gets_it_back_and_keeps_its_data(serving: Fleet) -> None:
    frozen = serving.children[("ControllerRevision", f"demo-{revision(serving)}")]
    data = frozen["data"]
    del frozen["metadata"]["ownerReferences"]
    made = serving.reconcile()
    assert [type(action).__name__ for action in made.actions] == ["Patch"]
    after = serving.children[("ControllerRevision", f"demo-{revision(serving)}")]
    assert after["metadata"]["ownerReferences"][0]["uid"] == serving.obj["metadata"]["uid"]
    assert after["data"] == data
    assert serving.planned().actions == ()


def test_slots_written_into_status_by_hand_start_no_pod(serving: Fleet) -> None:
    old = revision(serving)
    serving.edit(lambda it: it.image(OTHER_IMAGE))
    serving.settle()
    serving.obj["status"]["candidate"] = {**serving.obj["status"]["stable"], "revision": old, "slots": 5}
    made = serving.planned()
    assert not [a for a in made.actions if isinstance(a, Apply) and a.manifest["kind"] == "ReplicaSet"]
    serving.settle()
    assert list(serving.replicas().values()) == [3]


def test_every_write_that_scales_carries_the_version_it_was_planned_from(serving: Fleet) -> None:
    workload = serving.workloads()[0]
    workload["metadata"]["labels"][names.LABEL_APP_INSTANCE] = "edited"
    serving.edit(lambda it: it.replicas(4))
    (write,) = [a for a in serving.planned().actions if isinstance(a, Apply) and a.manifest["kind"] == "ReplicaSet"]
    assert write.if_version == workload["metadata"]["resourceVersion"]


def test_only_what_is_not_known_to_be_there_is_looked_for_before_it_is_made(serving: Fleet) -> None:
    del serving.children[("Service", "demo")]
    serving.workloads()[0]["metadata"]["labels"][names.LABEL_APP_INSTANCE] = "edited"
    fresh = {
        (action.manifest["kind"], action.manifest["metadata"]["name"]): action.fresh
        for action in serving.planned().actions
        if isinstance(action, Apply)
    }
    assert fresh == {("Service", "demo"): True, ("ReplicaSet", f"demo-{revision(serving)}"): False}
