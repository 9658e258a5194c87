"""The Prometheus that scrapes the exporters, and what it scraped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import prometheusprocess
from exporters import Exporters, Past, target

from specdecode_operator.metrics.backends import Backend


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
class Prometheus(prometheusprocess.Prometheus):
    """Scrapes the exporters."""

    exporters: Exporters

    def start(self) -> None:
        self.write(configuration(self.exporters.port))
        super().start()


@dataclass(frozen=True)
class History:
    """What was scraped, and in which windows."""

    prometheus: Prometheus
    past: Past

    @property
    def backend(self) -> Backend:
        return Backend(name="real", url=self.prometheus.url)
