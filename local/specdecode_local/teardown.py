"""Takes everything away, from any state: a healthy cluster, half a start, or what a power cut left.

Nothing here asks the API server, since it may be gone. Leftovers are found by what cannot lie: cgroups for processes,
addresses for network namespaces and links, paths for mounts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from specdecode_local import addresses, cgroups, firewall, footprint, mounts, network, paths, ports, process, sysctls

POD_SECONDS = 3.0
"""What containers get between SIGTERM and SIGKILL; the objects they serve go away with the cluster."""

STOP_FIRST = ("kubelet", "kube-controller-manager", "kube-scheduler", "kwok", "forward")
"""Those that would start something again while the rest is taken down."""

POLL_SECONDS = 0.05

PROGRAMS = frozenset(
    (
        "containerd",
        "containerd-shim-runc-v2",
        "runc",
        "kubelet",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-proxy",
        "etcd",
        "coredns",
        "kwok",
        "prometheus",
        "haproxy",
        "docker-registry",
    )
)
"""An editor with one of our files open is no leftover."""


def stop_everything() -> None:
    """Ends all processes: what starts others first, then pods, then the rest."""
    names = process.recorded_names()
    _stop([name for name in names if name in STOP_FIRST])
    _end_pods()
    _stop([name for name in names if name not in STOP_FIRST])
    _kill_rest()


def remove_everything() -> list[Path]:
    """What is left once no process lives: mounts, namespaces, links, rules, cgroups, settings, files.

    Returns the fixed paths outside our folders that came with us, for `leftovers` to look at.
    """
    mounts.unmount(mounts.ours())
    for name in mounts.pod_namespaces():
        mounts.delete_namespace(name)
    for link in network.pod_links():
        network.delete_link(link)
    firewall.remove()
    network.down()
    cgroups.remove()
    sysctls.restore()
    fixed = footprint.ours()
    footprint.remove()
    mounts.unmount(mounts.ours())
    # Unpacked engine images are hundreds of thousands of files; and a mount that was overlooked must not be emptied.
    subprocess.run(["rm", "-rf", "--one-file-system", str(paths.STATE)], check=False, capture_output=True)
    return fixed


def leftovers(fixed: Iterable[Path] = ()) -> list[str]:
    """Every trace of the cluster on this machine, in words; empty after a complete way down."""
    found = [f"process {pid}: {_command(pid)}" for pid in sorted(cgroups.processes() | _of_state())]
    found += [f"mount {point}" for point in mounts.ours()]
    found += [f"network namespace {name}" for name in mounts.pod_namespaces()]
    found += [f"link {name}" for name in sorted({network.LINK, network.PEER} & network.link_names())]
    found += [f"link {name}" for name in network.pod_links()]
    found += firewall.left()
    found += [f"cgroup {folder}" for folder in cgroups.left()]
    found += [f"folder {path}" for path in (paths.STATE, *fixed) if path.exists()]
    found += [f"port {port} ({purpose})" for address, port, purpose in addresses.USED if _listens(address, port)]
    return found


def _stop(names: list[str]) -> None:
    """All at once: one signal each, then one wait for all."""
    records = {name: record for name in names if (record := process.read_record(name)) is not None}
    alive = {name: record for name, record in records.items() if process.is_alive(record)}
    for record in alive.values():
        process.end(record, signal.SIGTERM)
    deadline = time.monotonic() + process.Component.stop_seconds
    while any(process.is_alive(record) for record in alive.values()) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    for name in names:
        process.stop(name, seconds=0.0)


def _end_pods() -> None:
    _signal(cgroups.pod_processes(), signal.SIGTERM)
    deadline = time.monotonic() + POD_SECONDS
    while cgroups.pod_processes() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    _kill_until_gone(cgroups.pod_processes)


def _kill_rest() -> None:
    """Shims outlive containerd on purpose, and a process we lost the record of is still in our cgroup."""
    _kill_until_gone(lambda: cgroups.processes() - {os.getpid()})


def _kill_until_gone(alive: Callable[[], set[int]], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while (pids := alive()) and time.monotonic() < deadline:
        _signal(pids, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _signal(pids: set[int], sign: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


def _of_state() -> set[int]:
    """Processes whose command line names our state folder, such as a shim that left its cgroup."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        if pid != os.getpid() and f"{paths.STATE}/" in _command(pid):
            program = _command(pid).split(" ", 1)[0]
            if Path(program).name in PROGRAMS:
                found.add(pid)
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _listens(address: str, port: int) -> bool:
    return any(item.port == port and item.address == address for item in ports.listeners())
