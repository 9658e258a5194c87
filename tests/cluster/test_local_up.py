"""`up` on a cluster that is up changes nothing; `status` says so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from specdecode_local import cluster, process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="up needs root")


def local(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "specdecode_local", *arguments], capture_output=True, text=True)


def pids() -> dict[str, int | None]:
    return {name: process.alive_pid(name) for name in cluster.NAMES}


def test_a_second_up_keeps_every_process_and_says_that_nothing_changed() -> None:
    before = pids()
    done = local("up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was changed" in done.stdout
    assert pids() == before


def test_status_lists_every_program_as_running() -> None:
    done = local("status")
    assert done.returncode == 0, done.stdout
    running = [line.split()[0] for line in done.stdout.splitlines() if " running " in line]
    assert running == list(cluster.NAMES)
