"""How much disk the next `up` needs, and whether it is there, said before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import gobuild, paths
from specdecode_local.errors import LocalError

GB = 1_000_000_000

GO_CACHES_GB = 14.0
"""The Go caches at their largest, while the last group is built; gone afterwards."""

GO_PROGRAMS_GB = 0.9
IMAGES_GB = 12.0
"""Engine images with what is unpacked while they are built."""

CLUSTER_GB = 6.0
"""etcd, logs, Prometheus, and images as containerd unpacks them."""


@dataclass(frozen=True)
class Need:
    """One thing that will take room on the file system of `where`."""

    what: str
    gigabytes: float
    where: Path


def needs(*, programs_missing: bool, images_missing: bool) -> list[Need]:
    """What will be written, at its largest."""
    found = [Need("cluster state", CLUSTER_GB, paths.STATE)]
    if programs_missing:
        found.append(
            Need("Go programs and, while they are built, Go's caches", GO_CACHES_GB + GO_PROGRAMS_GB, paths.cache())
        )
    if images_missing:
        found.append(Need("images and registry", IMAGES_GB, paths.cache()))
    return found


def current() -> list[Need]:
    return needs(
        programs_missing=bool(gobuild.missing()),
        images_missing=not any((paths.cache() / "images").glob("engine-cpu-*.json")),
    )


def free_gigabytes(path: Path) -> float:
    """Free room on the file system that will hold the path, which may not exist yet."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return os.statvfs(existing).f_bavail * os.statvfs(existing).f_frsize / GB


def device(path: Path) -> int:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return existing.stat().st_dev


def require(wanted: list[Need]) -> str:
    """A sentence about what is needed. Raises LocalError when a file system has too little."""
    for device_id in {device(need.where) for need in wanted}:
        here = [need for need in wanted if device(need.where) == device_id]
        total = sum(need.gigabytes for need in here)
        free = free_gigabytes(here[0].where)
        if free < total:
            raise LocalError(
                f"{here[0].where} is on a file system with {free:.1f} GB free; {total:.1f} GB are needed",
                detail="\n".join(f"{need.gigabytes:5.1f} GB  {need.what} ({need.where})" for need in here),
                remedy="free some, or set SPECDECODE_CACHE to a folder on a larger file system",
            )
    total = sum(need.gigabytes for need in wanted)
    return f"up to {total:.0f} GB of disk ({', '.join(need.what for need in wanted)})"
