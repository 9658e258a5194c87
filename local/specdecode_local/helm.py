"""What a helm that was killed leaves: a release marked as pending, which every later helm refuses to touch."""

from __future__ import annotations

from specdecode_local import kubectl

PENDING = "pending-install,pending-upgrade,pending-rollback"


def interrupted(release: str, namespace: str) -> tuple[str, ...]:
    """Arguments of kubectl that name the marks. What is deployed has a record of its own, and stays."""
    return ("secrets", "-n", namespace, "-l", f"owner=helm,name={release},status in ({PENDING})")


def forget_interrupted(release: str, namespace: str) -> None:
    """Removes the marks; nothing of ours runs two helms at a time. Raises LocalError when kubectl fails."""
    kubectl.run("delete", *interrupted(release, namespace))
