"""At rest the operator writes nothing: no heartbeat in status, no re-applied child, no repeated event."""

from __future__ import annotations

import pytest
from apiserver import SDD
from auditlog import AuditLog
from objects import standin
from operatorpod import ACCOUNT, InstalledOperator
from workspace import Workspace

from specdecode_local import paths

OBJECTS = 20
QUIET_SECONDS = 15
"""How long nothing must have been written before the objects count as at rest."""


@pytest.fixture
def audit() -> AuditLog:
    return AuditLog(paths.AUDIT_LOG)


def test_twenty_serving_objects_cause_no_write(
    workspace: Workspace, operator: InstalledOperator, standin_image: str, audit: AuditLog, long_form: bool
) -> None:
    seconds = 600 if long_form else 60
    names = [f"rest-{number:02}" for number in range(OBJECTS)]
    for name in names:
        workspace.create(standin(name, standin_image, replicas=1, hostname=f"{name}.{workspace.name}.test"))
    for name in names:
        workspace.await_settled(name, seconds=300)
    await_quiet(workspace, audit)
    versions = {sdd["metadata"]["name"]: sdd["metadata"]["resourceVersion"] for sdd in workspace.api.list(SDD)}

    start = audit.end()
    workspace.holds_for(
        f"the operator writes nothing for {seconds} s with {OBJECTS} objects",
        lambda: not audit.writes(ACCOUNT, start),
        seconds=seconds,
    )

    assert audit.writes(ACCOUNT, start) == []
    assert versions == {sdd["metadata"]["name"]: sdd["metadata"]["resourceVersion"] for sdd in workspace.api.list(SDD)}
    writers = {entry["user"]["username"] for entry in audit.entries(start) if entry["verb"] in ("update", "patch")}
    print(f"0 writes of {ACCOUNT} in {seconds} s with {OBJECTS} objects; others that wrote: {sorted(writers)}")
    assert writers, "the log has the writes of others, so it would have the operator's"

    awake_still(workspace, audit, names[0])


def await_quiet(workspace: Workspace, audit: AuditLog) -> None:
    """Wait until the operator has written nothing for QUIET_SECONDS: late routes and endpoints have come in."""

    def quiet() -> bool:
        start = audit.end()
        workspace.holds_for("no write", lambda: not audit.writes(ACCOUNT, start), seconds=QUIET_SECONDS)
        return True

    workspace.await_that("the operator comes to rest", quiet, seconds=120)


def awake_still(workspace: Workspace, audit: AuditLog, name: str) -> None:
    """A change after the quiet time is taken up, so the quiet was rest and not death."""
    start = audit.end()
    workspace.api.patch(SDD, name, {"spec": {"replicas": 2}}, workspace.name, subresource="scale")
    workspace.await_settled(name)
    assert audit.writes(ACCOUNT, start)
