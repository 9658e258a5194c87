"""Plain processes, supervised by pid.

A record in `<state>/run` says what was started: pid, the kernel's start time of it (a pid alone may be reused), and a
digest of command and configuration. So `up` can tell "running as wanted" from "running otherwise" and from "gone",
without a daemon of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path

from specdecode_local import cgroups, paths
from specdecode_local.errors import LocalError

POLL_SECONDS = 0.05
LOG_LINES_IN_ERRORS = 12
GARBAGE = "200"
"""GOGC of the cluster's programs: with Go's own 100 the API server collects garbage for a third of its time."""
LOG_BYTES = 50_000_000
"""A log larger than this is set aside, once, when its program starts."""


@dataclass(frozen=True)
class Component:
    """One long-running program of the cluster."""

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], str | None]
    """None when it serves, else what is still missing, as a person would say it."""
    configuration: Mapping[Path, str] = field(default_factory=dict)
    """Files written before it starts; a change calls for a restart."""
    files: tuple[Path, ...] = ()
    """Other files whose change calls for a restart, such as certificates."""
    environment: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[], None] | None = None
    """What has to be cleared away before each start."""
    ready_seconds: float = 60.0
    stop_seconds: float = 8.0
    """How long it may take to leave on SIGTERM before SIGKILL."""


@dataclass(frozen=True)
class Record:
    """What was started, as written to disk."""

    pid: int
    start_time: int
    boot_id: str
    digest: str


class Outcome(Enum):
    """What `ensure` had to do."""

    KEPT = "kept"
    STARTED = "started"
    RESTARTED = "restarted"


def digest_of(component: Component) -> str:
    """Changes when the component would have to be started anew."""
    own = [component.argv, sorted(component.environment.items())]
    own += [[str(path), text] for path, text in sorted(component.configuration.items())]
    digest = hashlib.sha256(json.dumps(own).encode())
    for file in component.files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    program = Path(component.argv[0])
    # The link in the cache's bin folder names a build by content, so following it is enough to see a new version.
    digest.update(str(program.resolve()).encode())
    return digest.hexdigest()


def parse_stat(text: str) -> tuple[str, int]:
    """State letter and start time (clock ticks after boot) from /proc/PID/stat; the name in it may hold anything."""
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def stat_of(pid: int) -> tuple[str, int] | None:
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return None


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def record_path(name: str) -> Path:
    return paths.RUN / f"{name}.json"


def log_path(name: str) -> Path:
    return paths.LOGS / f"{name}.log"


def read_record(name: str) -> Record | None:
    try:
        return Record(**json.loads(record_path(name).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def recorded_names() -> list[str]:
    """Everything that was ever started and not stopped in order, alive or not."""
    return sorted(path.stem for path in paths.RUN.glob("*.json"))


def is_alive(record: Record | None) -> bool:
    """Whether exactly that process still runs; a zombie does not, once its last thread has gone."""
    if record is None or record.boot_id != boot_id():
        return False
    found = stat_of(record.pid)
    return found is not None and found[1] == record.start_time and not _ended(record.pid, found[0])


def _ended(pid: int, state: str) -> bool:
    """Whether nothing is left but an exit status. One whose first thread has gone holds its ports as long as others."""
    return state == "X" or (state == "Z" and _threads(pid) <= 1)


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def alive_pid(name: str) -> int | None:
    record = read_record(name)
    return record.pid if record is not None and is_alive(record) else None


def ensure(component: Component) -> Outcome:
    """Makes the component run as wanted, and touches nothing if it does. Does not wait for readiness."""
    record = read_record(component.name)
    if is_alive(record):
        assert record is not None
        if record.digest == digest_of(component):
            return Outcome.KEPT
        stop(component.name, component.stop_seconds)
        start(component)
        return Outcome.RESTARTED
    for lost in _unrecorded(component):
        _end_and_await(lost, component.stop_seconds)
    start(component)
    return Outcome.STARTED


def _unrecorded(component: Component) -> list[Record]:
    """Runs of it that no record tells of: the record was spoilt, or `up` was killed before it wrote one."""
    ours = {pid: stat_of(pid) for pid in cgroups.system_processes() if _program(pid) == component.argv[0]}
    return [Record(pid, found[1], boot_id(), "") for pid, found in ours.items() if found is not None]


def _program(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None


def start(component: Component) -> None:
    """Starts it in a session and cgroup of its own, so that it outlives this program and can be found again."""
    paths.LOGS.mkdir(parents=True, exist_ok=True)
    paths.RUN.mkdir(parents=True, exist_ok=True)
    for path, text in component.configuration.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if component.before is not None:
        component.before()
    programs = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    environment = {"PATH": programs, "HOME": "/root", "GOGC": GARBAGE}
    _set_aside(log_path(component.name))
    with log_path(component.name).open("ab") as log:
        child = subprocess.Popen(
            component.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**environment, **component.environment},
            start_new_session=True,
        )
    cgroups.adopt(child.pid)
    found = stat_of(child.pid)
    record = Record(child.pid, found[1] if found else 0, boot_id(), digest_of(component))
    partial = record_path(component.name).with_suffix(".partial")
    partial.write_text(json.dumps(asdict(record)))
    partial.rename(record_path(component.name))


def await_ready(component: Component, outcome: Outcome = Outcome.STARTED) -> Outcome:
    """Waits until the component serves; `outcome` is what `ensure` did, and what was done in the end is returned.

    One that was kept is started again, once, if it ends meanwhile or doesn't serve in time: a server that was told to
    leave lives on until its last requests have gone. Raises LocalError with the end of its log when one that was
    started dies or takes too long.
    """
    deadline = time.monotonic() + component.ready_seconds
    while (missing := component.ready()) is not None:
        gone, late = alive_pid(component.name) is None, time.monotonic() > deadline
        if outcome is Outcome.KEPT and (gone or late):
            stop(component.name, component.stop_seconds)
            start(component)
            return await_ready(component, Outcome.RESTARTED)
        if gone:
            raise LocalError(
                f"{component.name} ended right after its start",
                detail=log_tail(component.name),
                remedy=f"read {log_path(component.name)}, then run `make up` again",
            )
        if late:
            raise LocalError(
                f"{component.name} was not ready after {component.ready_seconds:g} s: {missing}",
                detail=log_tail(component.name),
                remedy=f"read {log_path(component.name)}, then run `make up` again",
            )
        time.sleep(POLL_SECONDS)
    return outcome


def stop(name: str, seconds: float = 8.0) -> None:
    """Ends the process by SIGTERM, after `seconds` by SIGKILL, and forgets it."""
    record = read_record(name)
    if is_alive(record):
        assert record is not None
        _end_and_await(record, seconds)
    record_path(name).unlink(missing_ok=True)


def _end_and_await(record: Record, seconds: float) -> None:
    end(record, signal.SIGTERM)
    if not _await_end(record, seconds):
        end(record, signal.SIGKILL)
        _await_end(record, 5.0)


def end(record: Record, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, sign)


def _set_aside(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.rename(log.with_suffix(".log.1"))


def log_tail(name: str) -> str:
    try:
        lines = log_path(name).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    return "\n".join(line[:300] for line in lines[-LOG_LINES_IN_ERRORS:])


def _await_end(record: Record, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(record):
        _reap(record.pid)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    _reap(record.pid)
    return True


def _reap(pid: int) -> None:
    """A child of this very program stays a zombie until it is waited for; others are init's."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
