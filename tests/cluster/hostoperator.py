"""The operator as a process of this machine, with its service account's rights: for killing it or changing its code.

The installed one is taken away meanwhile; two would undo each other's steps. Operators of several tests go side by
side, each in its own namespace.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml
from apiserver import ApiServer
from operatorpod import RELEASE, SYSTEM, InstalledOperator
from turns import shared
from waiting import await_that

from specdecode_local import paths

OPERATOR = ("-m", "specdecode_operator", "run")
HOST_OPERATORS = "host operators"
"""The group of the tests that have one: all are without the installed one."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def account_kubeconfig(api: ApiServer, folder: Path) -> Path:
    """A kubeconfig with a token of the operator's service account, so that its RBAC is what counts."""
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{RELEASE}/token"
    token = api.request("POST", path, json={"spec": {"expirationSeconds": 7200}})["status"]["token"]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "operator",
        "clusters": [{"name": "local", "cluster": api.authority}],
        "users": [{"name": "operator", "user": {"token": token}}],
        "contexts": [{"name": "operator", "context": {"cluster": "local", "user": "operator"}}],
    }
    target = folder / "operator-kubeconfig"
    target.write_text(yaml.safe_dump(config))
    target.chmod(0o600)
    return target


@dataclass
class HostOperator:
    """Starts, awaits and kills operator processes; their output goes to one log."""

    kubeconfig: Path
    log: Path
    namespace: str
    """The only namespace it serves."""
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    port: int = 0

    def start(self, program: Sequence[str] = OPERATOR, **settings: str) -> None:
        assert self.process is None or self.process.poll() is not None, "one at a time"
        self.port = free_port()
        environment = {
            **os.environ,
            **self.environment,
            "KUBECONFIG": str(self.kubeconfig),
            "SPECDECODE_WATCH_NAMESPACES": self.namespace,
            "SPECDECODE_LOG_LEVEL": "info",
            "SPECDECODE_HEALTH_PORT": str(self.port),
            "SPECDECODE_METRICS_PORT": str(free_port()),
            **settings,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, *program], env=environment, stdout=log, stderr=log)

    def healthy(self) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError as error:
            raise AssertionError(str(error)) from error

    def await_healthy(self) -> None:
        await_that("the operator's process is healthy", self.healthy, seconds=60, state=self.last_lines)

    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def kill(self) -> None:
        """SIGKILL: no chance to finish anything."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def last_lines(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-60:] if self.log.exists() else []
        return "\n".join(["--- the operator's log", *lines])


@contextmanager
def host_operator(
    api: ApiServer, installed: InstalledOperator, namespace: str, folder: Path, **environment: str
) -> Iterator[HostOperator]:
    """An operator process instead of the installed one, for the length of the block."""
    operator = HostOperator(
        kubeconfig=account_kubeconfig(api, folder),
        log=folder / "operator.log",
        namespace=namespace,
        environment=environment,
    )
    with shared(paths.cache() / "cluster-tests-operator-away.lock", first=installed.stop, last=installed.start):
        try:
            yield operator
        finally:
            operator.kill()
