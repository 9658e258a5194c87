"""`make dev`: the working tree's operator instead of the installed one, and the installed one back afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from apiserver import DEPLOYMENT, ApiServer
from operatorpod import RELEASE, SYSTEM, InstalledOperator
from waiting import await_that

from specdecode_local import dev, paths

pytestmark = pytest.mark.alone


class Dev:
    """The command as a person runs it."""

    def __init__(self, log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "specdecode_local", "dev"],
                stdout=output,
                stderr=output,
                cwd=paths.REPOSITORY,
                # Tests in a shell's background ignore Ctrl-C, and so would what they start.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def await_said(self, text: str, times: int = 1, seconds: float = 90) -> None:
        await_that(
            f"make dev says {text!r}", lambda: self.said().count(text) >= times, seconds=seconds, state=self.said
        )


@contextmanager
def running(log: Path) -> Iterator[Dev]:
    command = Dev(log)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.send_signal(signal.SIGINT)
            command.process.wait(120)


@pytest.fixture
def deployment(api: ApiServer, operator: InstalledOperator) -> Iterator[str]:
    """Whatever the test leaves, the installed operator is back for the next one."""
    yield RELEASE
    api.patch(DEPLOYMENT, RELEASE, {"metadata": {"annotations": {dev.BEFORE: None}}}, SYSTEM)
    operator.start()


def scaled(api: ApiServer) -> tuple[int, str | None]:
    """Replicas of the installed operator, and what `make dev` noted to scale back to."""
    found = api.get(DEPLOYMENT, RELEASE, SYSTEM)
    assert found is not None
    return found["spec"]["replicas"], found["metadata"].get("annotations", {}).get(dev.BEFORE)


def test_a_change_restarts_the_working_trees_operator_and_the_end_puts_the_installed_one_back(
    api: ApiServer, operator: InstalledOperator, deployment: str, tmp_path: Path
) -> None:
    with running(tmp_path / "dev.log") as command:
        command.await_said("the working tree's operator runs")
        assert scaled(api) == (0, "1")
        assert not operator.pods()
        # Its watch of the files begins a moment after it has said so: a change before that is nobody's.
        await_that(
            "make dev sees a change",
            lambda: "changed: __init__.py" in command.said() or os.utime(dev.SOURCES / "__init__.py"),
            state=command.said,
            poll=5.0,
        )
        command.await_said("the working tree's operator runs", times=2)
    assert command.process.returncode == 0, command.said()
    assert scaled(api) == (1, None)


def test_after_a_kill_the_next_run_puts_the_installed_operator_back(
    api: ApiServer, deployment: str, tmp_path: Path
) -> None:
    with running(tmp_path / "killed.log") as command:
        command.await_said("the working tree's operator runs")
        command.process.kill()
        command.process.wait()
    assert scaled(api) == (0, "1")
    await_that("the killed one's operator is gone too", lambda: not dev.healthy())
    with running(tmp_path / "next.log") as command:
        command.await_said("was cut off before it put the installed operator back")
        command.await_said("the working tree's operator runs")
    assert scaled(api) == (1, None)
