"""What runs, since when, with how much memory; what the cluster says of its nodes, pods and gateway; where it is."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import cluster, gateway, kubectl, ownership, paths, process, reach
from specdecode_local.errors import LocalError
from specdecode_local.progress import elapsed

MIB = 1 << 20


@dataclass(frozen=True)
class Line:
    """One program."""

    name: str
    state: str
    pid: int | None = None
    seconds: float | None = None
    mebibytes: float | None = None


@dataclass(frozen=True)
class Report:
    """Everything that `status` shows."""

    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    well: bool


def collect() -> Report:
    lines = tuple(_line(name) for name in cluster.names())
    running = all(line.state == "running" for line in lines)
    notes, fine = _notes() if _up(lines) else (["not up"], False)
    owner = ownership.read().get("checkout")
    if owner is not None and owner != str(paths.REPOSITORY):
        notes.append(f"belongs to the checkout {owner}")
    return Report(lines=lines, notes=tuple(notes), well=running and fine)


def table(report: Report) -> str:
    """The report as a person reads it, with the addresses of a cluster that is up."""
    rows = [("COMPONENT", "STATE", "PID", "SINCE", "MEMORY")]
    for line in report.lines:
        rows.append(
            (
                line.name,
                line.state,
                "-" if line.pid is None else str(line.pid),
                "-" if line.seconds is None else elapsed(line.seconds),
                "-" if line.mebibytes is None else f"{line.mebibytes:.0f} MiB",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*text, "", *report.notes, *(["", reach.told()] if _up(report.lines) else [])])


def _up(lines: tuple[Line, ...]) -> bool:
    """Whether there is an API server to ask."""
    return any(line.name == "kube-apiserver" and line.pid for line in lines)


def _line(name: str) -> Line:
    record = process.read_record(name)
    if record is None:
        return Line(name, "not started")
    if not process.is_alive(record):
        return Line(name, "dead")
    return Line(name, "running", record.pid, _age(record.start_time), _resident(record.pid))


def _age(start_ticks: int) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def _notes() -> tuple[list[str], bool]:
    try:
        nodes, nodes_fine = _nodes()
        pods, pods_fine = _pods()
        gate = gateway.missing()
    except LocalError as error:
        return [f"the API server does not answer: {error}"], False
    return [nodes, pods, f"gateway: {gate or 'programmed and answering'}"], nodes_fine and pods_fine and gate is None


def _nodes() -> tuple[str, bool]:
    items = kubectl.get("nodes")["items"]
    ready = [item for item in items if _condition(item, "Ready") == "True"]
    return f"nodes: {len(ready)} of {len(items)} Ready", len(ready) == len(items)


def _pods() -> tuple[str, bool]:
    """All pods are told; only the gateway's own decide whether the cluster is well."""
    items = kubectl.get("pods", "-A")["items"]
    ready = [item for item in items if _condition(item, "Ready") == "True"]
    own = [item for item in items if item["metadata"]["namespace"] == gateway.CONTROLLER_NAMESPACE]
    serving = [item for item in own if item["status"].get("phase") != "Succeeded"]
    return f"pods: {len(ready)} of {len(items)} Ready", all(_condition(item, "Ready") == "True" for item in serving)


def _condition(item: dict[str, object], kind: str) -> str:
    status = item.get("status", {})
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    return next((str(entry["status"]) for entry in conditions if entry["type"] == kind), "Unknown")
