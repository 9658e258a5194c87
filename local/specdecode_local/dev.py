"""`dev`: change a line of the operator, see it running on the local cluster within seconds.

The installed operator is scaled to zero, since two would undo each other's steps, and the one of the working tree runs
as a process of this machine, restarted whenever a file of it changes. It has the rights of the operator's own service
account and no more, so a missing permission shows here and not in production. At the end the installed one is put back;
after a crash of this program the next run does so.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import watchfiles
import yaml

from specdecode_local import kubectl, paths, privilege
from specdecode_local.errors import LocalError
from specdecode_local.progress import Progress, elapsed

NAMESPACE = "specdecode-system"
NAME = "specdecode-operator"
BEFORE = "local.specdecode.io/replicas-before-dev"
"""Annotation on the Deployment while `dev` runs: what to scale back to."""

SOURCES = paths.REPOSITORY / "operator" / "specdecode_operator"
HEALTH_PORT = 18080
METRICS_PORT = 18081
TOKEN_DURATION = "12h"

PR_SET_PDEATHSIG = 1

WARM = """
import runpy, sys
import kopf, kubernetes, prometheus_client, pydantic
if sys.stdin.readline():
    sys.argv = ["specdecode_operator", "run"]
    runpy.run_module("specdecode_operator", run_name="__main__", alter_sys=True)
"""
"""A new operator process, halted where the working tree's own code would be imported."""

STOP_SECONDS = 15.0
START_SECONDS = 30.0
POLL_SECONDS = 0.1


def account_kubeconfig(admin: Mapping[str, Any], token: str) -> dict[str, Any]:
    """A kubeconfig for the same cluster with the service account's token instead of the administrator's rights."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": admin["clusters"][0]["cluster"]}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": "dev", "context": {"cluster": "local", "user": NAME, "namespace": NAMESPACE}}],
        "current-context": "dev",
    }


def settings_of(deployment: Mapping[str, Any]) -> dict[str, str]:
    """The installed operator's settings, so that the process behaves as the pod would."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {entry["name"]: entry["value"] for entry in container.get("env", []) if entry.get("value")}


def replicas_before(deployment: Mapping[str, Any]) -> tuple[int, bool]:
    """What to scale back to, and whether a former run left without doing so."""
    noted = deployment["metadata"].get("annotations", {}).get(BEFORE)
    return (int(noted), True) if noted else (int(deployment["spec"].get("replicas", 1)), False)


def environment(kubeconfig: Path, settings: Mapping[str, str], machine: Mapping[str, str]) -> dict[str, str]:
    """The operator process's environment: the machine's, the pod's settings, and ports that are free on a host."""
    return {
        **machine,
        **settings,
        "KUBECONFIG": str(kubeconfig),
        "PYTHONPATH": str(SOURCES.parent),
        "PYTHONUNBUFFERED": "1",
        "SPECDECODE_HEALTH_PORT": str(HEALTH_PORT),
        "SPECDECODE_METRICS_PORT": str(METRICS_PORT),
    }


class OperatorProcess:
    """The working tree's operator: started, awaited, stopped. A spare with its imports behind it is always ready."""

    def __init__(self, progress: Progress, settings: Mapping[str, str]) -> None:
        self.progress = progress
        self.settings = settings
        self.kubeconfig = paths.RUN / "dev-kubeconfig"
        self.process: subprocess.Popen[bytes] | None = None
        self.spare: subprocess.Popen[bytes] | None = None

    def start(self, since: float, event: str) -> None:
        """Starts it and says when it serves, counted from `since`; a process that ends is told, not raised."""
        self._write_kubeconfig()
        self.process, self.spare = self.spare or self._warm(), None
        assert self.process.stdin is not None
        with self.process.stdin as stdin:
            stdin.write(b"run\n")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if healthy():
                taken = elapsed(time.monotonic() - since)
                self.progress.say(f"dev: the working tree's operator runs, {taken} after {event}")
                break
            time.sleep(POLL_SECONDS)
        else:
            self._tell_unhealthy()
        self.spare = self._warm()

    def _tell_unhealthy(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.progress.say(
                f"dev: not healthy after {START_SECONDS:.0f} s (its output is above); waiting for a change"
            )
        else:
            self.tell_if_ended()

    def _warm(self) -> subprocess.Popen[bytes]:
        """A process that has imported everything but the operator, and runs it when told; the imports take seconds."""
        return subprocess.Popen(
            [sys.executable, "-c", WARM],
            stdin=subprocess.PIPE,
            env=environment(self.kubeconfig, self.settings, os.environ),
            cwd=paths.REPOSITORY,
            # Of its own session: Ctrl-C is for this program, which then lets the operator end in order.
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    def tell_if_ended(self) -> None:
        """Says once that the process is gone; the next change starts it again."""
        if self.process is not None and self.process.poll() is not None:
            self.progress.say(f"dev: the operator ended with {self.process.returncode}; waiting for a change")
            self.process = None

    def end(self) -> None:
        """Stops it, and the spare too."""
        if self.spare is not None:
            self.spare.kill()
            self.spare.wait()
        self.stop()

    def stop(self) -> None:
        """Lets it end in order; kills it when it does not."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.progress.say(f"dev: the operator did not stop within {STOP_SECONDS:.0f} s, killing it")
            self.process.kill()
            self.process.wait()

    def _write_kubeconfig(self) -> None:
        token = kubectl.run("create", "token", NAME, "-n", NAMESPACE, f"--duration={TOKEN_DURATION}").strip()
        admin = yaml.safe_load(paths.KUBECONFIG.read_text())
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(account_kubeconfig(admin, token)))


def _end_with_parent() -> None:
    """Runs in the new process: a killed `dev` must not leave an operator behind that nobody knows of."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def healthy() -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{HEALTH_PORT}/healthz", timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@contextmanager
def instead_of_the_installed_one(progress: Progress) -> Iterator[dict[str, str]]:
    """Takes the installed operator away for the length of the block and puts it back; gives its settings."""
    deployment = _deployment()
    replicas, left = replicas_before(deployment)
    if left:
        progress.say("dev: the last run was cut off before it put the installed operator back; this one will")
    kubectl.run("annotate", "deployment", NAME, "-n", NAMESPACE, "--overwrite", f"{BEFORE}={replicas}")
    try:
        with progress.step("take the installed operator away"):
            _scale(0)
            kubectl.wait(_pods_left, what="the installed operator's pod is gone", seconds=60)
        yield settings_of(deployment)
    finally:
        with progress.step("put the installed operator back"):
            _scale(replicas)
            kubectl.run("annotate", "deployment", NAME, "-n", NAMESPACE, f"{BEFORE}-")
            if replicas:
                kubectl.run("rollout", "status", f"deployment/{NAME}", "-n", NAMESPACE, "--timeout=90s")


def _deployment() -> dict[str, Any]:
    if not paths.KUBECONFIG.is_file():
        raise LocalError(
            "the local cluster is not up", remedy="run `make demo`, which starts it and installs the operator"
        )
    found = kubectl.get("deployment", "-n", NAMESPACE, f"--field-selector=metadata.name={NAME}")["items"]
    if not found:
        raise LocalError(
            f"there is no Deployment {NAMESPACE}/{NAME}: its chart brings the rights that the operator needs",
            remedy="run `make demo`, or install charts/specdecode-operator with helm, then `make dev` again",
        )
    deployment: dict[str, Any] = found[0]
    return deployment


def _scale(replicas: int) -> None:
    kubectl.run("scale", "deployment", NAME, "-n", NAMESPACE, f"--replicas={replicas}")


def _pods_left() -> str | None:
    names = kubectl.run("get", "pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/name={NAME}", "-o", "name").split()
    return ", ".join(names) or None


@contextmanager
def _alone() -> Iterator[None]:
    """One `dev` at a time: two would give each other's operator back."""
    paths.RUN.mkdir(parents=True, exist_ok=True)
    with (paths.RUN / "dev.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalError("another `make dev` is running", remedy="use that one, or stop it with Ctrl-C") from None
        yield


def _follow(operator: OperatorProcess, progress: Progress) -> None:
    """Restarts the operator at each change, until interrupted."""
    # Each round without a change is also a look at the process.
    for changes in watchfiles.watch(
        SOURCES, watch_filter=watchfiles.PythonFilter(), debounce=200, yield_on_timeout=True, rust_timeout=1000
    ):
        if not changes:
            operator.tell_if_ended()
            continue
        since = time.monotonic()
        names = sorted({str(Path(path).relative_to(SOURCES)) for _, path in changes})
        progress.say(f"dev: changed: {', '.join(names)}")
        operator.stop()
        operator.start(since, "the change")


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes none."""


def run(_: argparse.Namespace) -> int:
    privilege.require_root("it reads the cluster's administrator kubeconfig to make a token for the operator")
    signal.signal(signal.SIGTERM, _interrupt)
    progress = Progress()
    with _alone(), instead_of_the_installed_one(progress) as settings:
        operator = OperatorProcess(progress, settings)
        try:
            operator.start(time.monotonic(), "the start")
            progress.say(f"dev: change a file in {SOURCES.relative_to(paths.REPOSITORY)}; Ctrl-C ends")
            progress.say(f"dev: its metrics: http://127.0.0.1:{METRICS_PORT}/metrics, rights: service account {NAME}")
            _follow(operator, progress)
        except KeyboardInterrupt:
            progress.say("dev: stopping")
        finally:
            operator.end()
    return 0
