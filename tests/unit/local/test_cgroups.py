"""Cgroup folders come and go while they are looked through: containers end at any moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specdecode_local import cgroups


@pytest.fixture
def pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One hierarchy with two pods' folders."""
    monkeypatch.setattr(cgroups, "MOUNT", tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    folder = tmp_path / cgroups.PODS.lstrip("/")
    for number, name in enumerate(("a", "b"), start=1):
        (folder / name / "container").mkdir(parents=True)
        (folder / name / "container" / "cgroup.procs").write_text(f"{number}\n")
    return folder


class Listing:
    """What os.scandir returns, of entries that were read before."""

    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self.entries = iter(entries)

    def __enter__(self) -> Listing:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def __iter__(self) -> Listing:
        return self

    def __next__(self) -> os.DirEntry[str]:
        return next(self.entries)


@pytest.fixture
def vanishing(pods: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder `a`, gone as soon as its parent has been listed: just when a search is about to look into it."""
    scandir = os.scandir

    def listed(path: str | Path = ".") -> Listing:
        with scandir(path) as found:
            entries = list(found)
        if Path(path) == pods and (pods / "a").exists():
            (pods / "a" / "container" / "cgroup.procs").unlink()
            (pods / "a" / "container").rmdir()
            (pods / "a").rmdir()
        return Listing(entries)

    monkeypatch.setattr(os, "scandir", listed)
    return pods / "a"


def test_every_process_of_our_folders_is_found(pods: Path) -> None:
    assert cgroups.pod_processes() == {1, 2}


def test_a_folder_that_vanishes_in_a_search_hides_no_other(vanishing: Path) -> None:
    assert cgroups.pod_processes() == {2}
    assert not vanishing.exists()


def test_a_folder_that_vanishes_while_all_are_removed_is_no_error(vanishing: Path) -> None:
    cgroups.remove()
    assert not vanishing.exists()
