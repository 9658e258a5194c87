"""A real Prometheus that has scraped three windows, in which each pod does what it is there for. Once for all tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from exporters import Exporters, Past
from prometheusprocess import WAIT
from realprometheus import History, Prometheus
from waiting import await_that

from specdecode_operator.gates.windows import Grid

WINDOW, WINDOWS, INTERVAL = 30.0, 3, 5.0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process has the one history."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("prometheus"))


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Windows that ended a minute ago; in the middle of the second pod `before` is replaced by pod `after`."""
    start = float(round(time.time()) - 60 - WINDOWS * WINDOW)
    past = Past(Grid(start=start, seconds=WINDOW, count=WINDOWS, scrape_interval=INTERVAL))
    exporters = Exporters(past)
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"), exporters)
    try:
        prometheus.start()
        # A scrape is taken whole or not at all.
        await_that(
            "the past is scraped", lambda: prometheus.query('last_over_time(up{pod_uid="steady"}[1h])'), seconds=WAIT
        )
        yield History(prometheus, past)
    finally:
        prometheus.stop()
        exporters.stop()
