"""`up` on a cluster that is up changes nothing, on one that was hurt repairs it; `status` tells the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable

import pytest
from commands import Command
from localpods import LocalPods
from waiting import await_that

from specdecode_local import cgroups, cluster, images, process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="up needs root")


def local(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "specdecode_local", *arguments], capture_output=True, text=True)


def pids() -> dict[str, int | None]:
    return {name: process.alive_pid(name) for name in cluster.names()}


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
    assert running == list(cluster.names())


@pytest.fixture
def pods(kubectl: Command, namespace: str) -> LocalPods:
    return LocalPods(kubectl=kubectl, namespace=namespace, image=images.build("base"))


def kill(victims: Iterable[int | None]) -> None:
    for pid in victims:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.alone
def test_killed_programs_are_started_again_and_pods_run_on(pods: LocalPods) -> None:
    pods.apply(pods.pod("web"))
    pods.await_ready("web")
    container = pods.status("web")["containerID"]
    before = pids()
    victims = ("containerd", "kubelet", "kube-scheduler", "coredns")
    kill(before[name] for name in victims)
    await_that("status tells what died", lambda: local("status").returncode == 3, seconds=60)
    done = local("up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{name} started" in done.stdout for name in victims), done.stdout
    after = pids()
    assert {name for name in before if before[name] != after[name]} == set(victims)
    assert pods.status("web")["containerID"] == container
    assert pods.status("web")["restartCount"] == 0


@pytest.mark.alone
def test_after_every_process_was_killed_up_brings_back_the_same_objects(pods: LocalPods, long_form: bool) -> None:
    if not long_form:
        pytest.skip("kills every process of the cluster, engines of other tests included: long form only")
    pods.apply(pods.pod("web"), pods.service("web"))
    pods.await_ready("web")
    uid = pods.get("pod", "web")["metadata"]["uid"]
    kill(cgroups.processes())
    done = local("up")
    assert done.returncode == 0, done.stdout + done.stderr
    await_that("the container runs again", lambda: pods.status("web")["restartCount"] == 1, seconds=60)
    pods.await_ready("web")
    assert pods.get("pod", "web")["metadata"]["uid"] == uid
    # The rules of a Service follow its endpoints, a moment after its pods are Ready.
    # (By its full name: the short one is the pod's own.)
    await_that("its Service answers", lambda: pods.answers("web", f"http://web.{pods.namespace}/"), seconds=30)
