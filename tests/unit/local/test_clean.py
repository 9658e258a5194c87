"""`clean` removes what this program made, and nothing else that lies in a cache folder the user chose."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from specdecode_local import cgroups, clean, cluster, paths
from specdecode_local.progress import Progress


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECDECODE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "STATE", tmp_path / "state")
    monkeypatch.setattr(cgroups, "left", list)
    for name in ("go", "registry", "my-own"):
        (tmp_path / "cache" / name).mkdir(parents=True)
        (tmp_path / "cache" / name / "file").write_bytes(b"x" * 100_000)
    return tmp_path / "cache"


def test_our_folders_go_and_others_stay(cache: Path) -> None:
    assert clean.clean(Progress(io.StringIO())).startswith("removed 0.0 GB")
    assert [path.name for path in cache.iterdir()] == ["my-own"]


def test_a_cluster_that_is_there_goes_down_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(cluster, "down", lambda progress: seen.append((cache / "go").exists()))
    paths.STATE.mkdir()
    clean.clean(Progress(io.StringIO()))
    assert seen == [True], "the programs must be there for the way down"


def test_module_files_are_read_only_and_go_all_the_same(cache: Path) -> None:
    module = cache / "go-modules" / "example.org" / "tool"
    module.mkdir(parents=True)
    (module / "main.go").write_text("package main")
    module.chmod(0o555)
    clean.clean(Progress(io.StringIO()))
    assert not (cache / "go-modules").exists()
