"""The Prometheus that the local cluster has, on its own: a process, and its API."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from waiting import await_that

from specdecode_local import paths

WAIT = 300.0
"""Seconds until waiting has failed; only then is it a failure."""


def built(name: str) -> Path:
    """A program of the local cluster's builds. Not a skip: a test that did not run proves nothing."""
    binary = paths.binary(name)
    if not binary.exists():
        pytest.fail(f"{binary} is missing: `make up` builds it", pytrace=False)
    return binary


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@dataclass
class Prometheus:
    """The process, and its API."""

    folder: Path
    port: int = field(default_factory=free_port, kw_only=True)
    process: subprocess.Popen[bytes] | None = field(default=None, kw_only=True)
    at: float | None = field(default=None, kw_only=True)
    """When queries are evaluated; None for now."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def write(self, configuration: Mapping[str, Any]) -> None:
        """What it reads at its start."""
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(dict(configuration)))

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                built("prometheus"),
                f"--config.file={self.folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("wb"),
        )
        await_that("Prometheus is ready", self._ready, seconds=WAIT)

    def _ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(f"Prometheus ended: {self.log}")
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def query(self, text: str) -> list[dict[str, Any]]:
        """What a person sees who pastes a query."""
        return self.ask("query", query=text, **({} if self.at is None else {"time": self.at}))

    def ask(self, path: str, **parameters: object) -> list[dict[str, Any]]:
        """The result of a query, instant or over a range.  Raises HTTPError for one that Prometheus refuses."""
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=60) as response:
            result: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return result
