"""Which checkout the machine's one cluster belongs to, and on which boot it was started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from specdecode_local import paths, process
from specdecode_local.components import containerd
from specdecode_local.errors import LocalError


def _note() -> Path:
    return paths.STATE / "owner.json"


def read() -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(_note().read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def alive() -> list[str]:
    """Names of the cluster's programs that run, whoever started them."""
    return [name for name in process.recorded_names() if process.alive_pid(name) is not None]


def require_ours() -> None:
    """Raises LocalError while a cluster from another checkout runs. One that is dead is no one's any more."""
    owner = read().get("checkout")
    running = alive()
    if owner is None or owner == str(paths.REPOSITORY) or not running:
        return
    raise LocalError(
        f"the cluster on this machine belongs to {owner} and is up ({len(running)} programs run)",
        remedy=f"use it as it is, or run `make down` in {owner} (or here: it stops any cluster of this kind) first",
    )


def claim() -> None:
    """Notes that the cluster is this checkout's, and of this boot."""
    paths.STATE.mkdir(parents=True, exist_ok=True)
    _note().write_text(json.dumps({"checkout": str(paths.REPOSITORY), "boot": process.boot_id()}))


def forget_previous_boot() -> bool:
    """Drops what describes processes and namespaces of a boot that is over; images and etcd stay.

    Returns whether there was any. containerd expects such state on a file system that a boot empties.
    """
    noted = read().get("boot")
    if noted is None or noted == process.boot_id():
        return False
    for folder in (containerd.RUNTIME_STATE, containerd.CNI_DATA):
        shutil.rmtree(folder, ignore_errors=True)
    return True
