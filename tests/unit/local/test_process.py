"""What `up` starts is known by pid and start time, kept while it is as wanted, and replaced when it is not."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import await_that

from specdecode_local import cluster, paths, process
from specdecode_local.errors import LocalError
from specdecode_local.process import Component, Outcome, Record

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RUN", "LOGS"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    ours: set[int] = set()
    monkeypatch.setattr(process.cgroups, "adopt", ours.add)
    monkeypatch.setattr(process.cgroups, "system_processes", lambda: ours)
    return tmp_path


@pytest.fixture
def sleeper() -> Component:
    component = Component(name="sleeper", argv=SLEEPER, ready=lambda: None, stop_seconds=2)
    yield component
    process.stop("sleeper", 2)


def test_a_name_with_parentheses_and_spaces_does_not_shift_the_fields() -> None:
    fields = ["S", *["0"] * 18, "4711", "0"]
    assert process.parse_stat("12 (a) name (x)) " + " ".join(fields)) == ("S", 4711)


def test_a_second_start_keeps_the_same_process(sleeper: Component) -> None:
    assert process.ensure(sleeper) is Outcome.STARTED
    first = process.alive_pid("sleeper")
    assert process.ensure(sleeper) is Outcome.KEPT
    assert process.alive_pid("sleeper") == first


def test_a_changed_configuration_replaces_the_process(sleeper: Component, state: Path) -> None:
    process.ensure(sleeper)
    first = process.alive_pid("sleeper")
    changed = replace(sleeper, configuration={state / "sleeper.conf": "new"})
    assert process.ensure(changed) is Outcome.RESTARTED
    assert process.alive_pid("sleeper") not in (None, first)
    assert (state / "sleeper.conf").read_text() == "new"


def test_a_program_is_told_to_collect_garbage_seldom(sleeper: Component) -> None:
    tells = "import os, time; print(os.environ['GOGC'], flush=True); time.sleep(60)"
    process.ensure(replace(sleeper, argv=(sys.executable, "-c", tells)))
    assert await_that("it tells", process.log_path("sleeper").read_text).strip() == process.GARBAGE


def test_a_killed_process_is_started_again(sleeper: Component) -> None:
    process.ensure(sleeper)
    first = process.alive_pid("sleeper")
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    assert process.ensure(sleeper) is Outcome.STARTED
    assert process.alive_pid("sleeper") not in (None, first)


@pytest.mark.parametrize("spoil", [lambda record: record.write_text("{"), Path.unlink], ids=["spoilt", "missing"])
def test_one_whose_record_cannot_be_read_makes_way(sleeper: Component, spoil: Callable[[Path], object]) -> None:
    process.ensure(sleeper)
    first = process.read_record("sleeper")
    spoil(process.record_path("sleeper"))
    assert process.ensure(sleeper) is Outcome.STARTED
    assert not process.is_alive(first)
    assert process.alive_pid("sleeper") is not None


def test_another_program_of_ours_stays_when_a_record_is_missing(sleeper: Component) -> None:
    other = replace(sleeper, name="other", argv=("/bin/sleep", "60"))
    process.ensure(other)
    process.ensure(sleeper)
    assert process.alive_pid("other") is not None
    process.stop("other", 2)


def test_a_reused_pid_is_not_taken_for_ours() -> None:
    mine = process.stat_of(os.getpid())
    assert mine is not None
    assert process.is_alive(Record(os.getpid(), mine[1], process.boot_id(), ""))
    assert not process.is_alive(Record(os.getpid(), mine[1] + 1, process.boot_id(), ""))
    assert not process.is_alive(Record(os.getpid(), mine[1], "another boot", ""))


def test_one_whose_first_thread_has_gone_is_awaited_since_it_still_holds_its_ports(state: Path) -> None:
    """A killed program of many threads looks like that until the last one has left."""
    others = "threading.Thread(target=time.sleep, args=(60,)).start()"
    program = f"import ctypes, threading, time; {others}; ctypes.CDLL(None).pthread_exit(None)"

    def ready() -> str | None:
        record = process.read_record("headless")
        assert record is not None
        return None if process.stat_of(record.pid)[0] == "Z" else "its first thread runs"

    component = Component(name="headless", argv=(sys.executable, "-c", program), ready=ready)
    process.ensure(component)
    process.await_ready(component)
    assert process.ensure(component) is Outcome.KEPT
    process.stop("headless", 2)
    assert process.alive_pid("headless") is None


def test_what_is_in_the_way_is_cleared_before_each_start_and_never_while_it_runs(sleeper: Component) -> None:
    cleared = []
    component = replace(sleeper, before=lambda: cleared.append(process.alive_pid("sleeper")))
    assert [process.ensure(component) for _ in range(2)] == [Outcome.STARTED, Outcome.KEPT]
    process.ensure(replace(component, environment={"A": "1"}))
    assert cleared == [None, None]


def test_one_that_ignores_the_polite_signal_is_killed(state: Path) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    stubborn = f"import signal, time; {deaf}; print('on', flush=True); time.sleep(60)"
    log = process.log_path("stubborn")

    def ready() -> str | None:
        return None if log.exists() and "on" in log.read_text() else "not ignoring yet"

    component = Component(name="stubborn", argv=(sys.executable, "-c", stubborn), ready=ready)
    process.ensure(component)
    process.await_ready(component)
    process.stop("stubborn", 0.2)
    assert process.alive_pid("stubborn") is None


def test_one_that_dies_at_start_is_reported_with_the_end_of_its_log() -> None:
    program = "import sys; print('no such flag: --nonsense'); sys.exit(2)"
    component = Component(name="dies", argv=(sys.executable, "-c", program), ready=lambda: "no answer")
    process.ensure(component)
    with pytest.raises(LocalError, match="dies ended right after its start") as raised:
        process.await_ready(component)
    assert "no such flag: --nonsense" in str(raised.value)


@pytest.fixture
def draining(sleeper: Component) -> Component:
    """It runs already, and was told to leave; it serves no more, but whatever takes its place does."""
    process.ensure(sleeper)
    first = process.alive_pid("sleeper")
    assert first is not None

    def ready() -> str | None:
        if process.alive_pid("sleeper") not in (None, first):
            return None
        os.kill(first, signal.SIGTERM)
        return "shutting down"

    return replace(sleeper, ready=ready)


def test_one_found_on_its_way_out_is_started_again(draining: Component) -> None:
    assert cluster.start_and_await([draining]) == {"sleeper": Outcome.RESTARTED}
    assert draining.ready() is None


def test_one_found_that_does_not_serve_in_time_is_started_again(sleeper: Component) -> None:
    process.ensure(sleeper)
    first = process.alive_pid("sleeper")
    hangs = replace(sleeper, ready=lambda: "hangs" if process.alive_pid("sleeper") == first else None, ready_seconds=0)
    assert process.await_ready(hangs, process.ensure(hangs)) is Outcome.RESTARTED


def test_one_that_ends_again_after_that_is_reported(draining: Component) -> None:
    starts = []

    def ready() -> str | None:
        if (pid := process.alive_pid("sleeper")) is not None:
            os.kill(pid, signal.SIGTERM)
        return "shutting down"

    doomed = replace(draining, ready=ready, before=lambda: starts.append(None))
    with pytest.raises(LocalError, match="sleeper ended right after its start"):
        process.await_ready(doomed, process.ensure(doomed))
    assert len(starts) == 1


def test_one_that_never_serves_is_reported_with_what_is_missing(sleeper: Component) -> None:
    slow = replace(sleeper, ready=lambda: "port 1 is closed", ready_seconds=0.2)
    process.ensure(slow)
    with pytest.raises(LocalError, match=r"not ready after 0.2 s: port 1 is closed"):
        process.await_ready(slow)
