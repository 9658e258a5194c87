"""Removes what `down` keeps: programs, images and the registry's contents."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from specdecode_local import buildah, cgroups, cluster, disk, gobuild, paths
from specdecode_local.progress import Progress

OURS = ("bin", "go", "go-build", "go-modules", "go-toolchain", "images", "containers", "registry", "wheels")
"""Folders in the cache that this program makes; a cache folder set by the user may hold other things."""


def size_of(folder: Path) -> int:
    """Bytes on disk below a folder, links not followed."""
    total = 0
    for directory, _, files in os.walk(folder):
        for name in files:
            status = (Path(directory) / name).lstat()
            total += status.st_blocks * 512
    return total


def clean(progress: Progress) -> str:
    """Takes the cluster down if there is anything of it, then removes the caches. Returns a sentence."""
    if paths.STATE.exists() or cgroups.left():
        cluster.down(progress)
    before = size_of(paths.cache())
    gobuild.trim()
    buildah.drop_all()
    for name in OURS:
        shutil.rmtree(paths.cache() / name, ignore_errors=True)
    freed = (before - size_of(paths.cache())) / disk.GB
    return f"removed {freed:.1f} GB from {paths.cache()}"
