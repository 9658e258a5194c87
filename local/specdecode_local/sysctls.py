"""Kernel settings that the kubelet and CNI change for the whole machine: noted before, put back after."""

from __future__ import annotations

import json
from pathlib import Path

from specdecode_local import paths

NAMES = (
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/route_localnet",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


def _file(name: str) -> Path:
    return Path("/proc/sys") / name


def _note() -> Path:
    return paths.STATE / "sysctls.json"


def remember() -> None:
    """Notes the values once; a later `up` must not note what the cluster itself has set."""
    if _note().exists():
        return
    values = {name: _file(name).read_text().strip() for name in NAMES if _file(name).exists()}
    paths.STATE.mkdir(parents=True, exist_ok=True)
    _note().write_text(json.dumps(values))


def restore() -> None:
    """Puts back what `remember` noted."""
    if not _note().exists():
        return
    for name, value in json.loads(_note().read_text()).items():
        if _file(name).read_text().strip() != value:
            _file(name).write_text(value)
    _note().unlink()
