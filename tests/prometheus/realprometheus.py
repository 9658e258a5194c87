"""The Prometheus that the local cluster has, on its own, and what it scraped."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from exporters import Exporters, Past, target

from specdecode_local import paths
from specdecode_operator.metrics.backends import Backend

WAIT = 300.0
"""Seconds until waiting has failed; only then is it a failure."""


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {WAIT:g} s"
        time.sleep(0.1)


def configuration(port: int) -> dict[str, Any]:
    """The past as it is told, labels and times included; the live pod each second, labelled by its target."""
    address = f"127.0.0.1:{port}"
    past = {"honor_labels": True, "static_configs": [{"targets": [address]}]}
    live = {"static_configs": [{"targets": [address], "labels": target("live")}]}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "past", "metrics_path": "/past", "scrape_interval": "5s", "scrape_timeout": "5s", **past},
            {"job_name": "live", "metrics_path": "/live", **live},
        ],
    }


@dataclass
class Prometheus:
    """The process, and its API."""

    folder: Path
    exporters: Exporters
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> None:
        binary = paths.binary("prometheus")
        if not binary.exists():
            pytest.fail(f"{binary} is missing: `make up` builds it", pytrace=False)
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration(self.exporters.port)))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [
                binary,
                f"--config.file={self.folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--log.level=warn",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("wb"),
        )
        until(self._ready, "Prometheus is ready")

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"Prometheus ended: {self.log}"
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
        """What a person sees who pastes a query: no time, no limit."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
        with urllib.request.urlopen(address, timeout=60) as response:
            result: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return result


@dataclass(frozen=True)
class History:
    """What was scraped, and in which windows."""

    prometheus: Prometheus
    past: Past

    @property
    def backend(self) -> Backend:
        return Backend(name="real", url=self.prometheus.url)
