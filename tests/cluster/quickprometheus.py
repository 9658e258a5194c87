"""A Prometheus of a test's own: it scrapes one namespace each second, so that a canary's history is there in minutes,
and it can be stopped without anybody else missing it.

The operator is installed with its address as backend `quick`, whether it runs or not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from apiserver import Object

from specdecode_local import addresses, paths
from specdecode_local.components import prometheus

PORT = 19090
URL = f"http://{addresses.NODE}:{PORT}"
SCRAPE = "1s"

BACKENDS = [
    {"name": "main", "url": prometheus.URL},
    {"name": "quick", "url": URL},
    {"name": "nobody", "url": f"http://{addresses.NODE}:1"},
]
"""The chart's `metricsBackends` of these tests: the cluster's own, this one, and one that was never there."""


def configuration(namespace: str) -> Object:
    """The cluster's own rule for engines, more often and for one namespace."""
    jobs = prometheus.configuration()["scrape_configs"]
    engines: Object = next(job for job in jobs if job["job_name"] == "engines")
    for discovery in engines["kubernetes_sd_configs"]:
        discovery["namespaces"] = {"names": [namespace]}
    return {"global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE}, "scrape_configs": [engines]}


@dataclass
class QuickPrometheus:
    """The process, which can be stopped and started again over the same data."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = (
            str(paths.binary("prometheus")),
            f"--config.file={self.folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={addresses.NODE}:{PORT}",
            "--log.level=warn",
        )
        with (self.folder / "prometheus.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)
        self.process = None

    def ask(self, query: str) -> list[Any]:
        """Series of an instant query; an AssertionError while it doesn't answer."""
        try:
            answer = httpx.get(f"{URL}/api/v1/query", params={"query": query}, timeout=10, trust_env=False)
        except httpx.TransportError as error:
            raise AssertionError(f"Prometheus did not answer: {error}") from error
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"]["result"])

    def scrapes(self, seconds: int) -> list[int]:
        """Of each pod, how often it was scraped in the last seconds."""
        return [int(series["value"][1]) for series in self.ask(f"count_over_time(up[{seconds}s])")]


@contextmanager
def quick_prometheus(folder: Path, namespace: str) -> Iterator[QuickPrometheus]:
    """It runs for the length of the block, unless it is stopped in between."""
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration(namespace)))
    found = QuickPrometheus(folder)
    found.start()
    try:
        yield found
    finally:
        found.stop()
