"""What the operator stands on comes and goes: its CRD, a namespace, a hostname that two objects want."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apiserver import CRD, NAMESPACE, ROUTE, SDD, ApiServer, Object
from auditlog import AuditLog
from gateway import complete
from namespaces import PREFIX, MakeNamespace
from objects import standin
from operatorpod import ACCOUNT, InstalledOperator
from podhistory import restarts
from workspace import Workspace, uids

from specdecode_local import paths
from specdecode_operator.api import names


@pytest.fixture
def others(api: ApiServer, namespace: str) -> Iterator[None]:
    """Objects of other namespaces (a demo, say) are put back once the test has taken the CRD away under them."""
    before = [sdd for sdd in api.list(SDD) if sdd["metadata"]["namespace"] != namespace]
    yield
    for sdd in before:
        if not sdd["metadata"]["namespace"].startswith(PREFIX):
            api.create(SDD, as_written(sdd), sdd["metadata"]["namespace"])


def as_written(sdd: Object) -> Object:
    kept = {key: sdd["metadata"][key] for key in ("name", "labels", "annotations") if key in sdd["metadata"]}
    return {"apiVersion": sdd["apiVersion"], "kind": sdd["kind"], "metadata": kept, "spec": sdd["spec"]}


@pytest.mark.alone
@pytest.mark.usefixtures("others")
def test_the_crd_takes_its_objects_and_engines_with_it_and_the_operator_goes_on_with_the_next(
    workspace: Workspace, operator: InstalledOperator, standin_image: str
) -> None:
    api = workspace.api
    workspace.create(standin("before", standin_image, replicas=1))
    workspace.await_settled("before")
    pods = uids(operator.pods())

    api.delete(CRD, names.CRD_NAME)
    workspace.await_that("the CRD is gone", lambda: api.get(CRD, names.CRD_NAME) is None)
    workspace.await_that("the engines are gone with it", lambda: not workspace.pods())

    operator.reinstall()
    workspace.create(standin("after", standin_image, replicas=1))
    workspace.await_settled("after", seconds=150)
    assert uids(operator.pods()) == pods, "the operator's pod was not replaced"
    assert [restarts(pod) for pod in operator.pods()] == [0], operator.last_lines()


def test_a_namespace_is_deleted_with_its_objects_and_the_operator_does_not_fight_it(
    api: ApiServer, operator: InstalledOperator, make_namespace: MakeNamespace, standin_image: str
) -> None:
    workspace = Workspace(api=api, name=make_namespace("going-away"), operator_log=operator.last_lines)
    workspace.create(standin("going", standin_image, replicas=2, hostname=f"{workspace.name}.test"))
    workspace.await_settled("going")
    audit = AuditLog(paths.AUDIT_LOG)

    api.delete(NAMESPACE, workspace.name)
    workspace.await_that("the namespace is gone", lambda: api.get(NAMESPACE, workspace.name) is None, seconds=90)

    tried = [line for line in audit.told(ACCOUNT) if workspace.name in line]
    assert len(tried) <= 10, "\n".join(tried)


def test_of_two_objects_that_claim_one_hostname_the_older_serves_until_it_goes(
    workspace: Workspace, standin_image: str
) -> None:
    hostname = f"{workspace.name}.test"
    workspace.create(standin("older", standin_image, replicas=1, hostname=hostname))
    workspace.await_settled("older")
    workspace.await_condition("older", names.CONDITION_ROUTABLE, status="True")
    workspace.create(standin("younger", standin_image, replicas=1, hostname=hostname))
    said = workspace.await_condition(
        "younger", names.CONDITION_ROUTABLE, status="False", reason=names.REASON_HOSTNAME_TAKEN, contains=hostname
    )
    assert "older" in said["message"], said
    workspace.await_that("its engine runs: only the route is missing", lambda: workspace.ready_pods("younger"))
    workspace.await_condition("older", names.CONDITION_ROUTABLE, status="True")
    younger = uids(workspace.ready_pods("younger"))

    workspace.delete("older")
    workspace.await_that("the older route is gone", lambda: api_route(workspace, "older") is None)
    workspace.await_condition("younger", names.CONDITION_ROUTABLE, status="True", seconds=60)
    workspace.await_that("the younger object answers to the hostname", lambda: complete(hostname), seconds=30)
    assert uids(workspace.ready_pods("younger")) == younger


def api_route(workspace: Workspace, name: str) -> Object | None:
    return workspace.api.get(ROUTE, name, workspace.name)
