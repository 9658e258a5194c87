"""The stand-in for a Prometheus, and a backend that is it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from scraped import Standin, pod

from specdecode_operator.metrics.backends import Backend


@pytest.fixture
async def standin() -> AsyncIterator[Standin]:
    """One pod's series, for a start."""
    found = Standin(pod())
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
def backend(standin: Standin) -> Backend:
    return Backend(name="main", url=standin.url)
