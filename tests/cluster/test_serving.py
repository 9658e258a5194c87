"""One apply gives a served model: children, status, route, scale; one delete takes it all away."""

from __future__ import annotations

import json
from typing import Any

import httpx
from apiserver import (
    BUDGET,
    CONTROLLER_REVISION,
    EVENT,
    POD_MONITOR,
    REPLICA_SET,
    ROUTE,
    SDD,
    SERVICE,
    Kind,
    Object,
)
from commands import Command
from gateway import complete
from objects import MODEL, standin
from podhistory import is_ready
from workspace import Workspace, condition, uids

from specdecode_operator.api import names

CHILD_KINDS = (CONTROLLER_REVISION, REPLICA_SET, SERVICE, ROUTE, BUDGET, POD_MONITOR)


def children(workspace: Workspace, kind: Kind, name: str) -> dict[str, Object]:
    found = workspace.api.list(kind, workspace.name, selector=names.selector(name))
    return {child["metadata"]["name"]: child for child in found}


def test_an_applied_object_serves_and_scales_and_its_deletion_removes_everything(
    workspace: Workspace, kubectl: Command, standin_image: str
) -> None:
    name, hostname = "serve", f"{workspace.name}.test"
    manifest = json.dumps(standin(name, standin_image, replicas=3, hostname=hostname))
    kubectl("apply", "-n", workspace.name, "-f", "-", stdin=manifest)
    sdd = workspace.await_settled(name)

    owned_children_are_as_designed(workspace, sdd, hostname)
    status_says_what_is(workspace, sdd)
    printer_columns_read_well(workspace, kubectl, sdd)

    answer = workspace.await_that("a completion comes through the gateway", lambda: complete(hostname), seconds=30)
    assert answer["usage"]["completion_tokens"] == 4

    before = uids(workspace.ready_pods(name))
    kubectl("scale", "sdd", name, "-n", workspace.name, "--replicas=4")
    workspace.await_settled(name)
    assert before < uids(workspace.ready_pods(name)), "scaling up must keep every pod that was there"
    kubectl("scale", "sdd", name, "-n", workspace.name, "--replicas=2")
    workspace.await_settled(name)
    workspace.await_that("two pods are left", lambda: len(workspace.pods(name)) == 2)
    budget = children(workspace, BUDGET, name)[name]
    assert budget["spec"]["minAvailable"] == 1, "minAvailable that nobody set follows replicas - 1"

    events_are_sentences(workspace, name)

    workspace.delete(name)
    workspace.await_gone(name)
    workspace.await_that(
        "every child is gone with its owner",
        lambda: not any(children(workspace, kind, name) for kind in CHILD_KINDS),
    )


def owned_children_are_as_designed(workspace: Workspace, sdd: Object, hostname: str) -> None:
    name = sdd["metadata"]["name"]
    revision = sdd["status"]["stable"]["revision"]
    owned = names.revision_child(name, revision)
    assert set(children(workspace, CONTROLLER_REVISION, name)) == {owned}
    assert set(children(workspace, REPLICA_SET, name)) == {owned}
    assert set(children(workspace, SERVICE, name)) == {name, owned}
    assert set(children(workspace, BUDGET, name)) == {name}
    for kind in CHILD_KINDS:
        for child in children(workspace, kind, name).values():
            assert [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == [sdd["metadata"]["uid"]]
    budget = children(workspace, BUDGET, name)[name]["spec"]
    assert budget["minAvailable"] == 2
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    route = children(workspace, ROUTE, name)[name]["spec"]
    assert route["hostnames"] == [hostname]
    assert [(b["name"], b["weight"]) for b in route["rules"][0]["backendRefs"]] == [(owned, 3)]
    assert route["rules"][0]["timeouts"]["request"] == "0s"


def status_says_what_is(workspace: Workspace, sdd: Object) -> None:
    name, status = sdd["metadata"]["name"], sdd["status"]
    assert status["replicas"] == 3
    assert status["readyReplicas"] == 3
    assert status["selector"] == names.selector(name)
    assert "candidate" not in status
    for kind in set(names.CONDITIONS) - set(names.CANARY_CONDITIONS):
        assert condition(sdd, kind)["observedGeneration"] == sdd["metadata"]["generation"]
    workspace.await_condition(name, names.CONDITION_ROUTABLE, status="True", reason=names.REASON_ROUTE_ACCEPTED)
    assert not sdd["metadata"].get("finalizers"), "no finalizer can hang the object"
    pods = workspace.pods(name)
    assert all(is_ready(pod) for pod in pods)
    for pod in pods:
        container = pod["spec"]["containers"][0]
        assert pod["metadata"]["labels"][names.LABEL_REVISION] == status["stable"]["revision"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)


def printer_columns_read_well(workspace: Workspace, kubectl: Command, sdd: Object) -> None:
    name = sdd["metadata"]["name"]
    short = kubectl("get", "sdd", name, "-n", workspace.name).splitlines()
    assert short[0].split() == ["NAME", "READY", "REPLICAS", "REVISION", "ATTESTED", "STEP", "AGE"], short[0]
    assert sdd["status"]["stable"]["revision"] in short[1]
    wide = kubectl("get", "sdd", name, "-n", workspace.name, "-o", "wide").splitlines()
    assert {"IMAGE", "MESSAGE"} <= set(wide[0].split()), wide[0]
    assert sdd["spec"]["engine"]["image"] in wide[1]


def events_are_sentences(workspace: Workspace, name: str) -> None:
    def about_it() -> list[Any]:
        return workspace.events(name)

    events = workspace.await_that("the operator tells what it did", about_it, seconds=60)
    for event in events:
        words = event["message"].split()
        assert len(words) >= 4, f"not a sentence: {event['message']!r}"
    described = "\n".join(event["message"] for event in events)
    assert "revision" in described.lower(), described


def test_every_field_of_the_spec_is_explained(workspace: Workspace, kubectl: Command) -> None:
    text = kubectl("explain", "sdd.spec", "--recursive=false")
    for field in ("model", "speculative", "engine", "accelerator", "replicas", "minAvailable", "drain", "traffic"):
        assert field in text
    crd = workspace.api.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert not list(undescribed(schema["properties"]["spec"], "spec"))


def undescribed(schema: Object, path: str) -> list[str]:
    """Paths of the schema's properties without a description."""
    found: list[str] = []
    for key, child in schema.get("properties", {}).items():
        here = f"{path}.{key}"
        if not child.get("description"):
            found.append(here)
        found += undescribed(child, here)
        found += undescribed(child.get("items", {}), f"{here}[]")
    return found


def test_an_object_without_traffic_has_a_service_and_no_route(workspace: Workspace, standin_image: str) -> None:
    name = "inside"
    workspace.create(standin(name, standin_image, replicas=1))
    sdd = workspace.await_settled(name)
    assert children(workspace, ROUTE, name) == {}
    assert condition(sdd, names.CONDITION_ROUTABLE)["reason"] == names.REASON_NO_ROUTE
    service = children(workspace, SERVICE, name)[name]
    address = f"http://{service['spec']['clusterIP']}:{names.PORT}/v1/models"
    answer = workspace.await_that("the Service answers", lambda: served(address), seconds=60)
    assert [model["id"] for model in answer["data"]] == [MODEL]


def served(address: str) -> Object:
    """kube-proxy needs a moment to program a Service that has just become ready."""
    try:
        return dict(httpx.get(address, timeout=10, trust_env=False).json())
    except httpx.TransportError as error:
        raise AssertionError(str(error)) from error


def test_zero_replicas_give_every_pod_back_and_the_object_can_return(workspace: Workspace, standin_image: str) -> None:
    name = "sleeper"
    workspace.create(standin(name, standin_image, replicas=1))
    workspace.await_settled(name)
    workspace.api.patch(SDD, name, {"spec": {"replicas": 0}}, workspace.name, subresource="scale")
    workspace.await_that("no pod is left", lambda: not workspace.pods(name))
    workspace.await_condition(name, names.CONDITION_READY, status="False", reason=names.REASON_SCALED_TO_ZERO)
    workspace.api.patch(SDD, name, {"spec": {"replicas": 1}}, workspace.name, subresource="scale")
    workspace.await_settled(name)
    assert workspace.api.list(EVENT, workspace.name)
