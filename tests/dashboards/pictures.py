"""Draws docs/dashboards/*.svg: `python pictures.py FOLDER SECONDS`, with engines and a Prometheus of its own."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from committed import BOARDS, board, sent
from drawing import Answer, page
from livefleet import NAMESPACE, PODS, scraped
from prometheusprocess import Prometheus

WINDOW = "20s"
"""Of every rate: in a minute and a half, five minutes would show nothing but their own beginning."""
CAPTION = (
    "Real series of stand-ins, no measurement: {pods} stand-in engines (the telemetry code, on steps recorded from an "
    "engine on a CPU) and an operator's registry, scraped each second for {seconds} s; rates over {window}."
)


def answers(
    prometheus: Prometheus, panel: Mapping[str, Any], chosen: Mapping[str, str], since: float, until: float
) -> list[Answer]:
    """Of the panel's queries, over the time that Grafana would show."""
    found = []
    for target in panel["targets"]:
        query = sent(target["expr"], chosen, WINDOW)
        if target.get("instant"):
            rows = prometheus.ask("query", query=query, time=until)
            series = [(row["metric"], [_point(row["value"])]) for row in rows]
        else:
            rows = prometheus.ask("query_range", query=query, start=since, end=until, step=1)
            series = [(row["metric"], [_point(value) for value in row["values"]]) for row in rows]
        found.append(Answer(target.get("legendFormat", ""), series))
    return found


def _point(pair: list[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def main(folder: Path, seconds: int) -> None:
    """Write a picture of each dashboard."""
    with tempfile.TemporaryDirectory() as data, scraped(Path(data), scrapes=seconds, window=WINDOW) as prometheus:
        now = prometheus.at or time.time()
        caption = CAPTION.format(seconds=seconds, pods=len(PODS), window=WINDOW)
        for name in BOARDS:
            canary = name == "canary"
            chosen = {"revision": ".*", "batch": ".*", "gate": "drafter"}
            chosen |= {"namespace": NAMESPACE if canary else ".*", "object": "chat" if canary else ".*"}
            panels = [{**panel, "title": sent(panel["title"], chosen)} for panel in board(name)["panels"]]
            drawn = {
                place: answers(prometheus, panel, chosen, now - seconds + 20, now) for place, panel in enumerate(panels)
            }
            (folder / f"{name}.svg").write_text(page({**board(name), "panels": panels}, drawn, caption))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
