"""The GPU campaign measures a release's own tree and one with the whole series, and nothing else by those names."""

from pathlib import Path

import pytest
import releases
from bench.gpu import trees

from specdecode_engine import overlay
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest


@pytest.fixture
def patched(tmp_path: Path, manifest: Manifest) -> Path:
    folder = tmp_path / "patched"
    releases.install(folder)
    overlay.apply(folder, manifest)
    return folder


def test_what_is_measured_is_named_by_release_wheel_and_manifest(root: Path, patched: Path, manifest: Manifest) -> None:
    found = trees.check(root, patched, manifest)
    assert found == {"release": releases.RELEASE, "wheel": "0" * 64, "manifest_digest": manifest.digest}


def refused(stock: Path, patched: Path, manifest: Manifest) -> str:
    with pytest.raises(Refused) as refusal:
        trees.check(stock, patched, manifest)
    return str(refusal.value)


def test_a_patched_tree_is_not_stock(patched: Path, manifest: Manifest) -> None:
    assert "not stock" in refused(patched, patched, manifest)


def test_a_tree_without_a_patch_of_the_series_is_not_patched(root: Path, patched: Path, manifest: Manifest) -> None:
    overlay.revert(patched, manifest, ["inner"])
    assert "inner: not applied" in refused(root, patched, manifest)


def test_an_edited_file_is_in_neither(root: Path, patched: Path, manifest: Manifest) -> None:
    for folder, other in ((root, patched), (patched, root)):
        file = folder / "vllm/a.py"
        whole = file.read_text()
        file.write_text(whole + "\n")
        stock, series = (folder, other) if folder == root else (other, folder)
        assert "edited file" in refused(stock, series, manifest)
        file.write_text(whole)
