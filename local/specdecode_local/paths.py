"""Where everything of the local cluster lives.

Two places only, so that going down and cleaning up can be complete: a cache that survives the cluster (builds,
images' digests, the registry's blobs) and a state folder that goes away with it.
"""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
"""The checkout this program runs from."""

STATE = Path("/var/lib/specdecode-local")
"""Everything of the one cluster this machine can have; removed by `down`."""

KUBECONFIG = STATE / "kubeconfig"
"""The administrator's, there while the cluster is up."""

LOGS = STATE / "logs"
AUDIT_LOG = STATE / "audit.log"
CERTIFICATES = STATE / "pki"
CONFIGURATION = STATE / "config"
RUN = STATE / "run"
"""Process records, sockets and runtime state."""


def cache() -> Path:
    """The cache folder: `SPECDECODE_CACHE`, else `specdecode` in the user's cache folder."""
    override = os.environ.get("SPECDECODE_CACHE")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "specdecode"


def binaries() -> Path:
    """Links to the current builds of the Go programs."""
    return cache() / "bin"


def binary(name: str) -> Path:
    """Path of one of the Go programs (`kubectl`, `helm`, ...); it exists once its group has been built."""
    return binaries() / name


def environment() -> dict[str, str]:
    """This program's environment with our kubectl and helm first, and the cluster's kubeconfig."""
    path = f"{binaries()}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(KUBECONFIG)}


def registry_data() -> Path:
    """The registry's blobs; they outlive the cluster, so a warm start pulls nothing from afar."""
    return cache() / "registry"


def go_sources(group: str) -> Path:
    """The folder with a group's pinned go.mod and go.sum."""
    return REPOSITORY / "local" / "go" / group
