"""A real Prometheus that has scraped engines and an operator; once for all panels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import livefleet
import pytest
from prometheusprocess import Prometheus


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process scrapes for all that ask."""
    for item in items:
        if Path(__file__).parent in item.path.parents and "prometheus" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("dashboards"))


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with livefleet.scraped(tmp_path_factory.mktemp("dashboards")) as running:
        yield running
