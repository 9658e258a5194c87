"""The Prometheus that the local cluster has, on its own, and what it scraped."""

from __future__ import annotations

import json
import signal
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
from exporters import Exporters

from specdecode_local import paths
from specdecode_operator.gates.windows import Grid
from specdecode_operator.metrics.backends import Backend

SCRAPE = "1s"
INTERVAL = 4.0
"""What is said to the program: four times the truth, so that a machine that is busy loses no window by it."""
WINDOW = 8.0
WAIT = 300.0
"""Seconds until waiting has failed; only then is it a failure."""


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {WAIT:g} s"
        time.sleep(0.1)


@dataclass
class Prometheus:
    """The process, and its API."""

    folder: Path
    port: int
    exporters: Exporters
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def configure(self, pods: set[str]) -> None:
        """Scrape these, `twice` by two jobs, `other` as another revision's."""
        jobs = [_job(uid, uid, self.exporters.port) for uid in sorted(pods)]
        jobs.append(_job("twice-again", "twice", self.exporters.port))
        document = {"global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE}, "scrape_configs": jobs}
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(document))

    def start(self) -> None:
        binary = paths.binary("prometheus")
        if not binary.exists():
            pytest.fail(f"{binary} is missing: `make up` builds it", pytrace=False)
        self.process = subprocess.Popen(
            [
                binary,
                f"--config.file={self.folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--web.enable-lifecycle",
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

    def reload(self) -> None:
        request = urllib.request.Request(f"{self.url}/-/reload", method="POST")
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.status == 200

    def query(self, text: str) -> list[dict[str, Any]]:
        """What a person sees who pastes a query: no time, no limit."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
        with urllib.request.urlopen(address, timeout=60) as response:
            result: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return result

    def scraped(self, uid: str, since: float) -> bool:
        """Whether the pod was scraped after a time."""
        return any(float(row["value"][1]) > since for row in self.query(f'timestamp(up{{pod_uid="{uid}"}})'))


def _job(name: str, uid: str, port: int) -> dict[str, Any]:
    target = {
        "namespace": "team",
        "pod": f"chat-{uid}",
        "pod_uid": uid,
        "node": f"node-{uid}",
        "specdecode_name": "chat",
        "specdecode_revision": "new" if uid == "other" else "old",
    }
    static = {"targets": [f"127.0.0.1:{port}"], "labels": {**target, "__metrics_path__": f"/{uid}"}}
    return {"job_name": name, "static_configs": [static]}


@dataclass(frozen=True)
class History:
    """What was scraped, and in which windows."""

    prometheus: Prometheus
    exporters: Exporters
    grid: Grid
    began: float
    """When nothing had been scraped yet."""

    @property
    def backend(self) -> Backend:
        return Backend(name="real", url=self.prometheus.url)
