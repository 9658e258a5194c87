"""At rest the operator writes nothing: no heartbeat in status, no re-applied child, no repeated event."""

from __future__ import annotations

import pytest
from apiserver import SDD, Object
from auditlog import AuditLog, sentence
from namespaces import PREFIX
from objects import standin
from operatorpod import ACCOUNT, InstalledOperator
from workspace import Workspace

from specdecode_local import paths

OBJECTS = 20
QUIET_SECONDS = 15
"""How long nothing must have been written before the objects count as at rest."""


@pytest.mark.minutes
def test_twenty_serving_objects_cause_no_write(
    workspace: Workspace, operator: InstalledOperator, standin_image: str, long_form: bool
) -> None:
    seconds = 600 if long_form else 60
    names = [f"rest-{number:02}" for number in range(OBJECTS)]
    for name in names:
        workspace.create(standin(name, standin_image, replicas=1, hostname=f"{name}.{workspace.name}.test"))
    for name in names:
        workspace.await_settled(name, seconds=300)
    await_quiet(workspace)
    before = versions(workspace)

    audit = AuditLog(paths.AUDIT_LOG)
    workspace.holds_for(
        f"the operator writes nothing for {seconds} s with {OBJECTS} objects",
        lambda: not written(audit, workspace),
        seconds=seconds,
    )

    assert written(audit, workspace) == []
    assert versions(workspace) == before
    writers = {account for account, entries in audit.writes().items() if entries}
    print(f"0 writes of {ACCOUNT} in {seconds} s with {OBJECTS} objects; others that wrote: {sorted(writers)}")
    assert writers, "the log has the writes of others, so it would have the operator's"

    awake_still(workspace, names[0])


def versions(workspace: Workspace) -> dict[str, str]:
    objects = workspace.api.list(SDD, workspace.name)
    return {sdd["metadata"]["name"]: sdd["metadata"]["resourceVersion"] for sdd in objects}


def written(audit: AuditLog, workspace: Workspace) -> list[str]:
    """What the operator wrote anywhere but in the namespaces of the tests beside this one: they are not at rest."""
    return [sentence(entry) for entry in audit.writes()[ACCOUNT] if not of_another_test(entry, workspace.name)]


def of_another_test(entry: Object, own: str) -> bool:
    namespace = entry.get("objectRef", {}).get("namespace", "")
    return namespace != own and namespace.startswith(PREFIX)


def await_quiet(workspace: Workspace) -> None:
    """Wait until the operator has written nothing for QUIET_SECONDS: late routes and endpoints have come in."""

    def quiet() -> bool:
        audit = AuditLog(paths.AUDIT_LOG)
        workspace.holds_for("no write", lambda: not written(audit, workspace), seconds=QUIET_SECONDS)
        return True

    workspace.await_that("the operator comes to rest", quiet, seconds=120)


def awake_still(workspace: Workspace, name: str) -> None:
    """A change after the quiet time is taken up, so the quiet was rest and not death."""
    audit = AuditLog(paths.AUDIT_LOG)
    workspace.api.patch(SDD, name, {"spec": {"replicas": 2}}, workspace.name, subresource="scale")
    workspace.await_settled(name)
    assert written(audit, workspace)
