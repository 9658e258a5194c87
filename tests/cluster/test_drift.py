"""Children are what the object says, whatever somebody did to them; running pods are not touched by the repair."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from apiserver import BUDGET, CONTROLLER_REVISION, POD_MONITOR, REPLICA_SET, ROUTE, SERVICE, ApiServer, Kind, Object
from commands import Command
from namespaces import MakeNamespace
from objects import standin
from operatorpod import InstalledOperator
from workspace import Workspace, uids

from specdecode_operator.api import names

NAME = "drift"


@pytest.fixture(scope="module")
def serving(
    api: ApiServer, operator: InstalledOperator, make_namespace: MakeNamespace, standin_image: str
) -> Workspace:
    """One serving object for all edits: each leaves it as it was, or a later one fails."""
    workspace = Workspace(api=api, name=make_namespace("drift"), operator_log=operator.last_lines)
    greeting = {"name": "GREETING", "value": "beyond YAML's escapes: \N{ROCKET}"}
    spec = {"engine": {"env": [greeting]}}
    workspace.create(standin(NAME, standin_image, replicas=2, hostname=f"{workspace.name}.test", spec=spec))
    workspace.await_settled(NAME)
    workspace.await_condition(NAME, names.CONDITION_ROUTABLE, status="True")
    return workspace


def revision_child(workspace: Workspace) -> str:
    return names.revision_child(NAME, workspace.sdd(NAME)["status"]["stable"]["revision"])


def child(workspace: Workspace, kind: Kind, name: str) -> Object:
    found = workspace.api.get(kind, name, workspace.name)
    assert found is not None, f"{kind.plural} {name} is not there"
    return found


def desired(found: Object) -> Object:
    """What a child asks for, without what the API server and other controllers write into it."""
    meta = found["metadata"]
    asked = {key: dict(found[key]) for key in ("spec", "data") if key in found}
    for allocated in ("clusterIP", "clusterIPs"):
        asked.get("spec", {}).pop(allocated, None)
    owners = [owner["uid"] for owner in meta.get("ownerReferences", [])]
    return {"labels": meta.get("labels"), "owners": owners, **asked}


EDITS: dict[str, tuple[Kind, Object | list[Object]]] = {
    "an environment variable added to the pod template": (
        REPLICA_SET,
        [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "ROGUE", "value": "1"}}],
    ),
    "an argument added to the pod template": (
        REPLICA_SET,
        [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--rogue"}],
    ),
    "another image in the pod template": (
        REPLICA_SET,
        [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "127.0.0.1:5000/rogue:1"}],
    ),
    "a container added to the pod template": (
        REPLICA_SET,
        [
            {
                "op": "add",
                "path": "/spec/template/spec/containers/-",
                "value": {"name": "rogue", "image": "127.0.0.1:5000/rogue:1"},
            }
        ],
    ),
    "a port of the Service": (SERVICE, [{"op": "replace", "path": "/spec/ports/0/port", "value": 9999}]),
    "the Service's selector": (SERVICE, {"spec": {"selector": {names.LABEL_NAME: "somebody-else"}}}),
    "a weight of the route": (
        ROUTE,
        [{"op": "replace", "path": "/spec/rules/0/backendRefs/0/weight", "value": 0}],
    ),
    "a hostname of the route": (ROUTE, {"spec": {"hostnames": ["rogue.test"]}}),
    "the time limit of the route": (
        ROUTE,
        [{"op": "replace", "path": "/spec/rules/0/timeouts/request", "value": "15s"}],
    ),
    "a second time limit of the route": (
        ROUTE,
        [{"op": "add", "path": "/spec/rules/0/timeouts/backendRequest", "value": "1s"}],
    ),
    "whether the Service sends to pods that aren't ready": (SERVICE, {"spec": {"publishNotReadyAddresses": True}}),
    "which pod a client of the Service stays with": (SERVICE, {"spec": {"sessionAffinity": "ClientIP"}}),
    "from where the Service is reached": (SERVICE, {"spec": {"internalTrafficPolicy": "Local"}}),
    "how much is scraped": (POD_MONITOR, {"spec": {"sampleLimit": 1}}),
    "the budget's minimum": (BUDGET, {"spec": {"minAvailable": 0}}),
    "the labels that tie a child to its owner": (BUDGET, {"metadata": {"labels": {names.LABEL_NAME: None}}}),
    "the owner of a child": (SERVICE, {"metadata": {"ownerReferences": []}}),
}


def name_of(kind: Kind, workspace: Workspace) -> str:
    return revision_child(workspace) if kind in (REPLICA_SET, CONTROLLER_REVISION) else NAME


def comes_back(workspace: Workspace, kind: Kind, spoil: Callable[[str], object], *, what: str) -> None:
    """Spoil a child; it must become what it was, and the pods must not notice."""
    name = name_of(kind, workspace)
    before, pods = desired(child(workspace, kind, name)), uids(workspace.ready_pods(NAME))
    spoil(name)

    def restored() -> bool:
        now = desired(child(workspace, kind, name))
        assert now == before, f"is {now}, was {before}"
        return True

    workspace.await_that(f"{what} is put right", restored, seconds=30)
    workspace.holds_for("running pods are untouched", lambda: uids(workspace.ready_pods(NAME)) == pods, seconds=2)


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_by_hand_is_put_right(serving: Workspace, what: str) -> None:
    kind, change = EDITS[what]
    comes_back(serving, kind, lambda name: serving.api.patch(kind, name, change, serving.name), what=what)


def test_replicas_scaled_by_hand_come_back_and_no_serving_pod_is_replaced(serving: Workspace) -> None:
    pods = uids(serving.ready_pods(NAME))
    serving.api.patch(REPLICA_SET, revision_child(serving), {"spec": {"replicas": 3}}, serving.name)
    serving.await_that("the ReplicaSet has two replicas again", lambda: has_replicas(serving, 2), seconds=30)
    serving.await_settled(NAME)
    assert len(pods & uids(serving.ready_pods(NAME))) >= 1


def has_replicas(workspace: Workspace, count: int) -> bool:
    return bool(child(workspace, REPLICA_SET, revision_child(workspace))["spec"]["replicas"] == count)


@pytest.mark.parametrize("kind", [SERVICE, ROUTE, BUDGET, CONTROLLER_REVISION], ids=lambda kind: kind.plural)
def test_a_deleted_child_comes_back_as_it_was(serving: Workspace, kind: Kind) -> None:
    name = name_of(kind, serving)
    uid = child(serving, kind, name)["metadata"]["uid"]

    def delete(name: str) -> None:
        serving.api.delete(kind, name, serving.name)
        serving.await_that(
            f"another {kind.plural} of that name is there",
            lambda: (serving.api.get(kind, name, serving.name) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid,
            seconds=30,
        )

    comes_back(serving, kind, delete, what=f"a deleted {kind.plural}")


def test_an_orphaning_delete_of_the_replica_set_keeps_its_pods(serving: Workspace, kubectl: Command) -> None:
    """The ReplicaSet comes back as it was and takes its pods up again: nothing restarts."""
    pods = uids(serving.ready_pods(NAME))
    name = revision_child(serving)
    before = serving.api.get(REPLICA_SET, name, serving.name)
    assert before is not None
    # kubectl's own waiting takes the one that comes back for the one that goes, and never ends.
    kubectl("delete", "replicaset", name, "-n", serving.name, "--cascade=orphan", "--wait=false")

    def another() -> bool:
        live = serving.api.get(REPLICA_SET, name, serving.name)
        return live is not None and live["metadata"]["uid"] != before["metadata"]["uid"]

    serving.await_that("the ReplicaSet is back", another, seconds=30)
    serving.await_settled(NAME)
    assert uids(serving.ready_pods(NAME)) == pods


def test_a_pod_deleted_by_hand_is_replaced_by_the_same_revision(serving: Workspace, kubectl: Command) -> None:
    revision = serving.sdd(NAME)["status"]["stable"]["revision"]
    victim, other = serving.ready_pods(NAME)
    kubectl("delete", "pod", victim["metadata"]["name"], "-n", serving.name, "--wait=false")
    serving.await_that(
        "two pods serve, one of them new",
        lambda: len(ready := uids(serving.ready_pods(NAME))) == 2 and victim["metadata"]["uid"] not in ready,
    )
    assert other["metadata"]["uid"] in uids(serving.ready_pods(NAME))
    assert serving.await_settled(NAME)["status"]["stable"]["revision"] == revision
