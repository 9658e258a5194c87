"""Replicas that span trays: what is made of them is taken by the API as LeaderWorkerSet and ComputeDomain define it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from apiserver import SDD, Kind, Object
from auditlog import AuditLog, sentence
from multinode import COMPUTE_DOMAIN, LEADER_WORKER_SET, definitions, installed
from objects import standin
from operatorpod import ACCOUNT
from workspace import Workspace, condition, uids

from specdecode_local import paths
from specdecode_operator.api import names

EXAMPLE = Path(__file__).parents[2] / "examples" / "gb200-multi-tray.yaml"
NAME = "kimi"
QUIET_SECONDS = 15

# They install kinds for the whole cluster, or must find them absent: one after the other.
pytestmark = [pytest.mark.xdist_group("test_multi_node"), pytest.mark.minutes]


def example(replicas: int) -> Object:
    """The example as it stands, without its route."""
    obj: Object = yaml.safe_load(EXAMPLE.read_text())
    obj["spec"] |= {"replicas": replicas}
    del obj["spec"]["traffic"]
    return obj


def only(workspace: Workspace, kind: Kind) -> Object | None:
    """The object's one child of a kind."""
    found = workspace.api.list(kind, workspace.name, selector=names.selector(NAME))
    assert len(found) <= 1, [each["metadata"]["name"] for each in found]
    return found[0] if found else None


def test_an_edit_that_needs_what_is_missing_moves_nothing_and_can_be_reverted(
    workspace: Workspace, standin_image: str
) -> None:
    workspace.create(standin("edited", standin_image, replicas=1))
    spec = workspace.await_settled("edited")["spec"]
    before = uids(workspace.pods("edited"))
    workspace.change("edited", {"accelerator": {"nodesPerReplica": 2}, "parallelism": {"tensor": 2}})
    await_missing(workspace, "LeaderWorkerSet", name="edited")
    assert condition(workspace.sdd("edited"), names.CONDITION_READY)["status"] == "True"
    assert uids(workspace.ready_pods("edited")) == before

    workspace.api.patch(SDD, "edited", [{"op": "replace", "path": "/spec", "value": spec}], workspace.name)
    workspace.await_settled("edited")
    assert uids(workspace.ready_pods("edited")) == before, "a revert restarts nothing"


def test_what_is_missing_is_named_and_it_goes_on_once_that_is_installed(workspace: Workspace) -> None:
    domains, sets = sorted(definitions(), key=lambda each: str(each["metadata"]["name"]))
    workspace.create(example(2))
    await_missing(workspace, f"{names.LWS_API_VERSION} LeaderWorkerSet")
    with installed(workspace.api, sets):
        await_missing(workspace, f"{names.COMPUTE_DOMAIN_API_VERSION} ComputeDomain")
        assert only(workspace, LEADER_WORKER_SET) is None, "pods without their domain would never start"
        with installed(workspace.api, domains):
            workspace.await_that("the domain is made", lambda: only(workspace, COMPUTE_DOMAIN))
            workspace.await_that("the set is made", lambda: only(workspace, LEADER_WORKER_SET))


def await_missing(workspace: Workspace, what: str, *, name: str = NAME) -> None:
    reason = names.REASON_CRD_MISSING
    workspace.await_condition(name, names.CONDITION_PROGRESSING, status="False", reason=reason, contains=what)


def test_set_and_domain_stay_as_made_follow_replicas_and_go_with_the_object(workspace: Workspace) -> None:
    with installed(workspace.api, *definitions()):
        workspace.create(example(2))
        made = workspace.await_that("the set is made", lambda: only(workspace, LEADER_WORKER_SET))
        domain = workspace.await_that("the domain is made", lambda: only(workspace, COMPUTE_DOMAIN))
        claims_from(domain, made)
        strictly_taken(workspace, LEADER_WORKER_SET, made)
        strictly_taken(workspace, COMPUTE_DOMAIN, domain)
        nothing_is_written_at_rest(workspace)

        edit = {"spec": {"startupPolicy": "LeaderReady"}}
        workspace.api.patch(LEADER_WORKER_SET, made["metadata"]["name"], edit, workspace.name)
        workspace.await_that("an edit by hand is put right", lambda: policy(workspace) == "LeaderCreated", seconds=30)
        workspace.change(NAME, {"replicas": 3})
        workspace.await_that("replicas follow, and the partition them", lambda: rolling(workspace) == (3, 3))

        workspace.delete(NAME)
        workspace.await_that("the set goes with the object", lambda: only(workspace, LEADER_WORKER_SET) is None)
        workspace.await_that("the domain goes with it", lambda: only(workspace, COMPUTE_DOMAIN) is None)


def claims_from(domain: Object, made: Object) -> None:
    """Two groups of two pods, each with a claim from the domain's template."""
    group = made["spec"]["leaderWorkerTemplate"]
    assert (made["spec"]["replicas"], group["size"]) == (2, 2)
    template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    for pod in (group["leaderTemplate"], group["workerTemplate"]):
        assert [each["resourceClaimTemplateName"] for each in pod["spec"]["resourceClaims"]] == [template]


def strictly_taken(workspace: Workspace, kind: Kind, made: Object) -> None:
    """The API server takes what the operator applied where each field that it does not know is an error."""
    (applied,) = (each for each in made["metadata"]["managedFields"] if each["manager"] == names.FIELD_MANAGER)
    assert applied["operation"] == "Apply"
    kept = ("labels", "annotations", "ownerReferences")
    metadata = {key: made["metadata"][key] for key in kept if key in made["metadata"]}
    again = {**made, "metadata": {**metadata, "name": "again"}}
    params = {"dryRun": "All", "fieldValidation": "Strict"}
    workspace.api.request("POST", kind.path(workspace.name), params=params, json=again)


def nothing_is_written_at_rest(workspace: Workspace) -> None:
    """Defaults that the API server fills in are no drift."""

    def written(audit: AuditLog) -> list[str]:
        entries = audit.writes()[ACCOUNT]
        return [sentence(each) for each in entries if each.get("objectRef", {}).get("namespace") == workspace.name]

    def quiet() -> bool:
        audit = AuditLog(paths.AUDIT_LOG)
        workspace.holds_for("no write", lambda: not written(audit), seconds=QUIET_SECONDS)
        return True

    workspace.await_that("the operator comes to rest", quiet, seconds=60)
    for kind in (LEADER_WORKER_SET, COMPUTE_DOMAIN):
        found = only(workspace, kind)
        assert found is not None
        touched = {"metadata": {"annotations": {"example.com/touched": "true"}}}
        workspace.api.patch(kind, found["metadata"]["name"], touched, workspace.name)
    assert quiet(), "looked at once more, they are still as they should be"


def policy(workspace: Workspace) -> str:
    found = only(workspace, LEADER_WORKER_SET)
    return str(found["spec"]["startupPolicy"]) if found else ""


def rolling(workspace: Workspace) -> tuple[int, int]:
    found = only(workspace, LEADER_WORKER_SET)
    assert found is not None
    return found["spec"]["replicas"], found["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"]
