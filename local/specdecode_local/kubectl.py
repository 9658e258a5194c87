"""kubectl and helm as this program calls them: always our binaries, always this cluster."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from specdecode_local import paths
from specdecode_local.errors import LocalError

FIELD_MANAGER = "specdecode-local"
POLL_SECONDS = 0.25


def run(*arguments: str, stdin: str | None = None, program: str = "kubectl") -> str:
    """Standard output of the command. Raises LocalError with its own words when it fails."""
    command = [str(paths.binary(program)), "--kubeconfig", str(paths.KUBECONFIG), *arguments]
    result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"`{program} {' '.join(arguments)}` failed",
            detail=result.stderr,
            remedy="see `make status` for the state of the cluster",
        )
    return result.stdout


def get(*arguments: str) -> dict[str, Any]:
    """An object or a list, parsed."""
    parsed: dict[str, Any] = json.loads(run("get", *arguments, "-o", "json"))
    return parsed


def apply(manifests: Sequence[dict[str, Any]]) -> None:
    """Server-side apply of all of them in one call."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
    run(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", "-f", "-",
        stdin=body,
    )  # fmt: skip


def unapplied(manifests: Sequence[dict[str, Any]]) -> bool:
    """Whether the cluster differs from them, so that an `up` without work writes nothing."""
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
    command = [str(paths.binary("kubectl")), "--kubeconfig", str(paths.KUBECONFIG), "diff", "--server-side"]
    options = ["--force-conflicts", f"--field-manager={FIELD_MANAGER}", "-f", "-"]
    return subprocess.run([*command, *options], input=body, capture_output=True, text=True, check=False).returncode != 0


def wait(missing: Callable[[], str | None], *, what: str, seconds: float) -> None:
    """Waits until `missing` answers None. Raises LocalError with its last answer."""
    deadline = time.monotonic() + seconds
    while (answer := missing()) is not None:
        if time.monotonic() > deadline:
            raise LocalError(
                f"{what}: not there after {seconds:g} s: {answer}", remedy="see `make status` and the logs"
            )
        time.sleep(POLL_SECONDS)
