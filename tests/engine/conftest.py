"""Fixtures of the engine's tests.  None needs vLLM; those that need a release's files ask for them by line."""

from pathlib import Path

import pytest
import releases

from specdecode_engine.manifests import Manifest


@pytest.fixture(scope="session")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("series")
    releases.write_series(folder)
    return folder


@pytest.fixture(scope="session")
def manifest(series: Path) -> Manifest:
    return releases.manifest(series)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are killed here, machines do not lose power: what was written is there without a flush."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "site-packages"
    releases.install(folder)
    return folder
