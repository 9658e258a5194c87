"""How much disk the next `up` needs, and whether it is there, said before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import gobuild, paths
from specdecode_local.errors import LocalError

GB = 1_000_000_000

GO_GB = 11.0
"""Go's caches at their largest, while the last group is built. They are dropped before the first image is built."""

IMAGES_GB = 14.0
"""Engine images while they are built: layers as buildah unpacks them, and the registry."""

CLUSTER_GB = 6.0
"""etcd, logs, Prometheus, and images as containerd unpacks them."""

REPAIR_GB = 0.5


@dataclass(frozen=True)
class Need:
    """One thing that will take room on the file system of `where`."""

    what: str
    gigabytes: float
    where: Path


def needs(*, programs: bool, images: bool, cluster: bool) -> list[Need]:
    """What will be written, at its largest; the arguments tell what is there already."""
    found = [Need("cluster state", REPAIR_GB if cluster else CLUSTER_GB, paths.STATE)]
    if not images:
        found.append(Need("programs and images while they are built", max(GO_GB, IMAGES_GB), paths.cache()))
    elif not programs:
        found.append(Need("programs while they are built", GO_GB, paths.cache()))
    return found


def current() -> list[Need]:
    return needs(
        programs=not gobuild.missing(),
        images=any((paths.cache() / "images").glob("engine-cpu-*.json")),
        cluster=(paths.STATE / "etcd").is_dir(),
    )


def free_gigabytes(path: Path) -> float:
    """Free room on the file system that will hold the path, which may not exist yet."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return os.statvfs(existing).f_bavail * os.statvfs(existing).f_frsize / GB


def device(path: Path) -> int:
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    return existing.stat().st_dev


def require(wanted: list[Need]) -> str:
    """What is needed, in words; none below a gigabyte. Raises LocalError when a file system has too little."""
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
    return f"{total:.0f} GB of disk ({', '.join(need.what for need in wanted)})" if total >= 1 else ""
