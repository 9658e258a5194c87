"""A real Prometheus that scrapes exporters for some windows, in which each does what it is there for. Once for all."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from exporters import PODS, Exporters
from realprometheus import INTERVAL, WINDOW, History, Prometheus, until

from specdecode_operator.gates.windows import Grid


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process has the one history, which takes a minute. Scrapes that are late would be another history."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("prometheus"))
            item.add_marker(pytest.mark.scrapes)


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Three windows; in the middle of the second pod `before` is replaced by pod `after`."""
    began = time.time()
    exporters = Exporters()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), port, exporters)
    first = set(PODS) - {"after"}
    prometheus.configure(first)
    try:
        prometheus.start()
        until(lambda: all(prometheus.scraped(uid, began) for uid in first), "every pod is scraped")
        grid = Grid(start=float(round(time.time()) + 3 * INTERVAL), seconds=WINDOW, count=3, scrape_interval=INTERVAL)
        exporters.grid = grid
        until(lambda: prometheus.scraped("steady", exporters.event), "the event")
        prometheus.configure(set(PODS) - {"before"})
        prometheus.reload()
        until(lambda: prometheus.scraped("steady", grid.ends(2)[1]), "the last window is over")
        until(lambda: prometheus.scraped("after", grid.ends(2)[1]), "the last window is over for the new pod")
        yield History(prometheus, exporters, grid, began)
    finally:
        prometheus.stop()
        exporters.stop()
