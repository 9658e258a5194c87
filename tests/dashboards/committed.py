"""The dashboards as the chart has them, and their queries as Grafana would send them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parents[2] / "charts/specdecode-operator"
FILES = sorted((CHART / "dashboards").glob("*.json"))
RATE_INTERVAL = "1m"
"""Four scrapes at least, which is what Grafana makes of $__rate_interval."""


@functools.cache
def board(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "dashboards" / f"{name}.json").read_text())
    return found


BOARDS = [file.stem for file in FILES]


@dataclass(frozen=True)
class Target:
    """One query of one panel."""

    board: str
    panel: str
    ref: str
    expr: str
    legend: str = ""

    def __str__(self) -> str:
        return f"{self.board}: {self.panel} {self.ref}"


def targets() -> Iterator[Target]:
    for name in BOARDS:
        for panel in board(name)["panels"]:
            for one in panel["targets"]:
                yield Target(name, panel["title"], one["refId"], one["expr"], one.get("legendFormat", ""))


def variables(name: str) -> dict[str, str]:
    """Queries of the variables, by name."""
    listed = board(name)["templating"]["list"]
    return {one["name"]: one["query"]["query"] for one in listed if one["type"] == "query"}


def sent(expr: str, chosen: Mapping[str, str], rate_interval: str = RATE_INTERVAL) -> str:
    """A query with what a person has chosen in place of the variables."""
    for name, value in {"__rate_interval": rate_interval, **chosen}.items():
        expr = expr.replace(f"${name}", value)
    return expr
