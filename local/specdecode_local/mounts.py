"""Mounts and network namespaces that the cluster made, and how to undo them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from specdecode_local import addresses, paths

NAMESPACES = Path("/run/netns")


def parse_mount_points(mountinfo: str) -> list[str]:
    """Mount points in /proc/self/mountinfo, in order of mounting; octal escapes undone."""
    points = [line.split()[4] for line in mountinfo.splitlines() if line]
    return [re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), point) for point in points]


def below(points: list[str], folder: Path) -> list[str]:
    """Those at or under the folder, innermost first."""
    return [point for point in reversed(points) if Path(point).is_relative_to(folder)]


def at_or_below(folder: Path) -> list[str]:
    """What is mounted there now, innermost first."""
    return below(parse_mount_points(Path("/proc/self/mountinfo").read_text()), folder)


def ours() -> list[str]:
    return at_or_below(paths.STATE)


def unmount(points: list[str]) -> None:
    """All of them; what is busy is detached, to go when its last user does."""
    if points and subprocess.run(["umount", *points], capture_output=True, check=False).returncode:
        subprocess.run(["umount", "--lazy", *points], capture_output=True, check=False)


def pod_namespaces() -> list[str]:
    """Named network namespaces with an interface in our pods' range."""
    if not NAMESPACES.is_dir():
        return []
    return [path.name for path in sorted(NAMESPACES.iterdir()) if _is_pods(path.name)]


def delete_namespace(name: str) -> None:
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _is_pods(name: str) -> bool:
    shown = subprocess.run(["ip", "-json", "-n", name, "address", "show"], capture_output=True, text=True, check=False)
    if shown.returncode:
        # A file whose namespace is gone (its bind mount was lost): ours if CNI named it, since nothing else would.
        return name.startswith("cni-")
    links = json.loads(shown.stdout or "[]")
    found = [info.get("local", "") for link in links for info in link.get("addr_info", [])]
    # A sandbox whose interface is already gone has loopback alone.
    return any(is_pod_address(address) for address in found) or (name.startswith("cni-") and len(links) <= 1)


def is_pod_address(text: str) -> bool:
    prefix = addresses.PODS.split(".")[:2]
    return text.split(".")[:2] == prefix
