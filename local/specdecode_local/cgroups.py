"""The cgroup folders of the cluster: one for our own processes, one for the kubelet's pods.

Every process of the cluster is in one of them, whatever happened to its parent: that is how leftovers are found after a
power cut. Works on cgroup v1 (each controller has a hierarchy), v2 (one hierarchy) and the hybrid of both.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
ROOT = "specdecode-local"
SYSTEM = f"{ROOT}/system"
PODS = f"/{ROOT}/pods"
"""The kubelet's cgroupRoot."""

SHARES = {ROOT: 10240, SYSTEM: 2048}
"""CPU weight in v1's unit, where one process outside any group weighs 1024 by itself and a whole group no more unless
told so: without this a build beside the cluster would starve its API server."""

V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


def is_v2() -> bool:
    """Whether the machine has the unified hierarchy alone."""
    return (MOUNT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """Every hierarchy's top folder; controllers mounted together appear once."""
    if is_v2():
        return [MOUNT]
    return [path for path in sorted(MOUNT.iterdir()) if path.is_dir() and not path.is_symlink()]


def make() -> None:
    """Makes both folders in every hierarchy. A v1 cpuset accepts no process before it has CPUs and memory nodes."""
    for top in hierarchies():
        for name in (ROOT, SYSTEM, PODS.lstrip("/")):
            folder = top / name
            folder.mkdir(exist_ok=True)
            if is_v2():
                _delegate(folder.parent)
            _copy_cpuset(folder)
            _weigh(folder, SHARES.get(name))


def adopt(pid: int) -> None:
    """Puts a process, and what it will start, into our own folder."""
    for top in hierarchies():
        folder = top / SYSTEM
        # One hierarchy that says no (a process gone already, a kernel without that controller) must not stop the rest.
        with contextlib.suppress(OSError):
            if folder.is_dir():
                (folder / "cgroup.procs").write_text(str(pid))


def processes() -> set[int]:
    """All processes in our folders, pods' included."""
    return _processes(ROOT)


def system_processes() -> set[int]:
    """Our own processes, without the pods'."""
    return _processes(SYSTEM)


def pod_processes() -> set[int]:
    """Processes of containers, sandboxes included."""
    return _processes(PODS.lstrip("/"))


def _processes(folder: str) -> set[int]:
    found: set[int] = set()
    for top in hierarchies():
        # os.walk, since folders go away while their containers end, and pathlib's glob raises then.
        for path, _, _ in os.walk(top / folder):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in (Path(path) / "cgroup.procs").read_text().split())
    return found - {0}


def remove() -> list[Path]:
    """Removes the folders, deepest first. Returns those that would not go, because a process is still in them."""
    for top in hierarchies():
        folders = [Path(path) for path, _, _ in os.walk(top / ROOT)]
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
    return left()


def left() -> list[Path]:
    return [top / ROOT for top in hierarchies() if (top / ROOT).exists()]


def _copy_cpuset(folder: Path) -> None:
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if not is_v2() and file.exists() and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())


def _weigh(folder: Path, shares: int | None) -> None:
    if shares is None:
        return
    for file, value in ((folder / "cpu.shares", shares), (folder / "cpu.weight", shares * 100 // 1024)):
        if file.exists() and file.read_text().strip() != str(value):
            file.write_text(str(value))


def _delegate(folder: Path) -> None:
    available = (folder / "cgroup.controllers").read_text().split()
    for controller in V2_CONTROLLERS:
        if controller in available:
            with contextlib.suppress(OSError):
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")
