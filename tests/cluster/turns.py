"""Whose turn it is on the one cluster: one run at a time, its tests side by side, some of them with nobody beside them
or only with those that take the same away from the others.

A run is several processes (`-n 6`) that have to be let in together, which is more than one file lock can say.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from waiting import await_that

TOGETHER = "together"

LONGEST_SECONDS = 3600
"""A run that has not had its turn by then says who has it."""


RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
"""The same in every process of a run, another in the next."""


class Turns:
    """The turns of one process's tests. The run's begins with the first of them and ends with `end` or the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = ExitStack()
        self.begun = False

    @contextmanager
    def turn(self, group: str | None, *, alone: bool = False) -> Iterator[None]:
        """Let a test act on the cluster, beside the others of its run that name the same group; beside any for None.

        One that goes quite alone lets all go first that wait: the more processes are through, the more can be done
        meanwhile of what needs no turn.
        """
        if not self.begun:
            self.run.enter_context(of_group(RUN, self.folder / "cluster-tests.lock"))
            self.begun = True
        if group is None:
            yield
            return
        with (
            last(self.folder / "cluster-tests-others.lock", alone=alone),
            of_group(group, self.folder / "cluster-tests-turn.lock"),
        ):
            yield

    def end(self) -> None:
        self.run.close()


@contextmanager
def of_group(group: str, lock: Path) -> Iterator[None]:
    """Hold the lock together with all others of the group; another group waits until the last of them has let it go.

    The lock's file says which group holds it. The gate is for looking at both in one step. Who waits asks again: to be
    queued for the lock would keep it out when its own group is let in before it.
    """
    with lock.open("a") as holder, lock.with_suffix(".gate").open("a") as gate:
        await_that(
            f"{lock} is free for {group}",
            lambda: _let_in(group, lock, holder, gate),
            seconds=LONGEST_SECONDS,
            state=lambda: f"{lock.read_text()} holds it",
        )
        yield


@contextmanager
def last(lock: Path, *, alone: bool) -> Iterator[None]:
    """Hold the lock alone, or with all others who aren't alone: from when they wait for their group's turn."""
    with lock.open("a") as others:
        if alone:
            await_that(f"nobody else wants {lock}", lambda: _nobody_holds(others), seconds=LONGEST_SECONDS)
        else:
            fcntl.flock(others, fcntl.LOCK_SH)
        yield


@contextmanager
def shared(lock: Path, *, first: Callable[[], object], last: Callable[[], object]) -> Iterator[None]:
    """Hold something together with other processes: `first` before anybody is in, `last` once nobody is any more.

    `first` is called by everyone who comes in, and changes nothing when it was called before.
    """
    with lock.open("a") as holder, lock.with_suffix(".gate").open("a") as gate:
        with _locked(gate):
            first()
            fcntl.flock(holder, fcntl.LOCK_SH)
        try:
            yield
        finally:
            with _locked(gate):
                fcntl.flock(holder, fcntl.LOCK_UN)
                if _nobody_holds(holder):
                    last()


@contextmanager
def _locked(gate: IO[str]) -> Iterator[None]:
    fcntl.flock(gate, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(gate, fcntl.LOCK_UN)


def _let_in(group: str, lock: Path, holder: IO[str], gate: IO[str]) -> bool:
    with _locked(gate):
        if _nobody_holds(holder):
            lock.write_text(group)
        elif lock.read_text() != group:
            return False
        fcntl.flock(holder, fcntl.LOCK_SH)
        return True


def _nobody_holds(holder: IO[str]) -> bool:
    """Whether the lock was free; then it is the asker's."""
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def once_in_a_run(note: Path) -> Iterator[bool]:
    """True for the first process of the run that comes here; the others wait until its block has ended well."""
    with note.open("a") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        yield note.read_text() != RUN
        note.write_text(RUN)
