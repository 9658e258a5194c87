"""What has a child's name without being the object's stays as it is; the object says whose it is, and goes on later."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from apiserver import BUDGET, ROUTE, SERVICE, Kind, Object
from objects import standin
from workspace import Workspace

from specdecode_operator.api import names

NAME = "named"


@dataclass(frozen=True)
class Taken:
    """Something of somebody else's, called like the object."""

    kind: Kind
    manifest: Object


def manifest(api_version: str, kind: str, spec: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": NAME}, "spec": spec}


TAKEN = {
    "a Service without a selector": Taken(SERVICE, manifest("v1", "Service", {"ports": [{"port": 8000}]})),
    "a PodDisruptionBudget": Taken(
        BUDGET,
        manifest(
            "policy/v1", "PodDisruptionBudget", {"minAvailable": 1, "selector": {"matchLabels": {"app": "theirs"}}}
        ),
    ),
    "an HTTPRoute": Taken(
        ROUTE,
        manifest(
            names.GATEWAY_API_VERSION,
            "HTTPRoute",
            {"hostnames": ["theirs.test"], "rules": [{"backendRefs": [{"name": "theirs", "port": 80}]}]},
        ),
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_has_a_childs_name_is_left_as_it_is_until_it_goes(
    workspace: Workspace, standin_image: str, what: str
) -> None:
    api, kind = workspace.api, TAKEN[what].kind
    before = api.create(kind, TAKEN[what].manifest, workspace.name)
    workspace.create(standin(NAME, standin_image, replicas=1, hostname=f"{workspace.name}.test"))
    said = workspace.await_condition(
        NAME,
        names.CONDITION_PROGRESSING,
        status="False",
        reason=names.REASON_NAME_TAKEN,
        contains="metadata.name: found",
    )
    assert f"{before['kind']} {NAME} isn't made" in said["message"]
    workspace.await_that("the engine runs all the same", lambda: workspace.ready_pods(NAME))
    after = api.get(kind, NAME, workspace.name)
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    assert "ownerReferences" not in after["metadata"]
    assert "labels" not in after["metadata"]
    told = {event["reason"] for event in workspace.events(NAME)}
    assert names.REASON_NAME_TAKEN in told
    assert names.REASON_COMPLETE not in told, "an event claims what the condition doesn't"

    api.delete(kind, NAME, workspace.name)
    workspace.await_settled(NAME)
    made = api.get(kind, NAME, workspace.name)
    assert made is not None
    assert made["metadata"]["uid"] != before["metadata"]["uid"]


@pytest.mark.parametrize("kind", [SERVICE, BUDGET, ROUTE], ids=["Service", "PodDisruptionBudget", "HTTPRoute"])
def test_a_child_that_lost_its_labels_is_found_by_its_owner_and_gets_them_back(
    workspace: Workspace, standin_image: str, kind: Kind
) -> None:
    workspace.create(standin(NAME, standin_image, replicas=1, hostname=f"{workspace.name}.test"))
    workspace.await_settled(NAME)
    before = workspace.api.patch(kind, NAME, [{"op": "remove", "path": "/metadata/labels"}], workspace.name)

    def has_its_labels() -> bool:
        found = workspace.api.get(kind, NAME, workspace.name)
        assert found is not None
        assert found["metadata"]["uid"] == before["metadata"]["uid"]
        return bool(found["metadata"].get("labels", {}).get(names.LABEL_NAME) == NAME)

    workspace.await_that("the labels are back", has_its_labels)
