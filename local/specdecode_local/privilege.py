"""Root is needed for namespaces, mounts, cgroups and network devices; said before anything is touched."""

from __future__ import annotations

import os

from specdecode_local.errors import LocalError


def require_root(why: str) -> None:
    """Raises LocalError unless this program runs as root."""
    if os.geteuid() != 0:
        raise LocalError(
            f"this needs root, and runs as user id {os.geteuid()}: {why}",
            remedy="run it with sudo (`sudo -E make up` keeps the cache folder), or in a machine of its own",
        )
