"""Fixed paths that containerd, CNI and the kubelet use outside our folders, whatever they are told."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from specdecode_local import paths

FIXED = (
    Path("/run/containerd"),
    Path("/run/netns"),
    Path("/opt/containerd"),
    Path("/var/lib/cni"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    Path("/var/log/pods"),
    Path("/etc/cni"),
)
"""Removed on the way down if they were not there on the way up."""


def _note() -> Path:
    return paths.STATE / "found.json"


def remember() -> None:
    """Notes which of them others had made before us, once."""
    if not _note().exists():
        paths.STATE.mkdir(parents=True, exist_ok=True)
        _note().write_text(json.dumps([str(path) for path in FIXED if path.exists()]))


def ours() -> list[Path]:
    """Those that came with us and are still there; none when nothing was noted."""
    if not _note().exists():
        return []
    before = set(json.loads(_note().read_text()))
    return [path for path in FIXED if path.exists() and str(path) not in before]


def remove() -> None:
    for path in ours():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    remove_dead_links(Path("/var/log/containers"))


def remove_dead_links(folder: Path) -> None:
    """Links into our pods' logs, in a folder that someone else's kubelet may share."""
    if not folder.is_dir():
        return
    for link in folder.iterdir():
        if link.is_symlink() and str(link.readlink()).startswith(str(paths.STATE)):
            with contextlib.suppress(OSError):
                link.unlink()
