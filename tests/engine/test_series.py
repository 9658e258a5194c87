"""The series of both lines on the releases' own files: every combination of patches, by our overlay and by git."""

import ast
import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import engine_states
import killed
import pytest
import releases
import wheels

from specdecode_engine import manifests, overlay, toggles, tree
from specdecode_engine.manifests import STOCK, Manifest

pytestmark = pytest.mark.wheels

OURS = {
    "mtp-fused-metadata",
    "prefix-cache-tail",
    "splitkv-decode",
    "skip-draft-rebuild",
    "uniform-mamba-metadata",
    "telemetry",
}
BEYOND = {"0.30.0": set(), "0.33.0": {"shared-mamba-metadata", "skip-target-rebuild"}}
UPSTREAM = {"0.30.0": set(), "0.33.0": {"mtp-fused-metadata", "prefix-cache-tail", "skip-draft-rebuild"}}


@pytest.fixture(params=wheels.LINES)
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(line: str, tmp_path: Path) -> Path:
    wheels.install(line, tmp_path / "site-packages")
    return tmp_path / "site-packages"


@pytest.fixture
def manifest(line: str) -> Manifest:
    return manifests.load(line)


def subsets(manifest: Manifest) -> Iterator[frozenset[str]]:
    """Every combination of the line's patches but none."""
    names = manifest.patched
    for size in range(1, len(names) + 1):
        yield from map(frozenset, itertools.combinations(names, size))


def target_hashes(root: Path, manifest: Manifest, names: frozenset[str]) -> dict[str, str]:
    """What the manifest says of a tree with these patches."""
    return {path: of[names & set(manifest.touching(path))] for path, of in manifest.hashes.items()}


def test_every_optimization_has_a_row_on_every_line(manifest: Manifest, line: str) -> None:
    assert {o.name for o in manifest.optimizations} == OURS | BEYOND[line]
    assert {o.name for o in manifest.optimizations if o.origin == "upstream"} == UPSTREAM[line]


def test_the_manifest_was_sealed_from_the_release(manifest: Manifest, line: str) -> None:
    stock = {path: tree.sha256(wheels.source(line, path).encode()) for path in manifest.hashes}
    assert stock == {path: of[STOCK] for path, of in manifest.hashes.items()}


def test_every_combination_applies_alone_and_reverts_to_the_release(root: Path, manifest: Manifest) -> None:
    stock = releases.content(root)
    for names in subsets(manifest):
        overlay.apply(root, manifest, names)
        assert tree.hashes(root, manifest) == target_hashes(root, manifest, names)
        overlay.revert(root, manifest, names)
        assert releases.content(root) == stock


def test_each_patch_reverts_alone_out_of_the_whole_series(root: Path, manifest: Manifest) -> None:
    everything = frozenset(manifest.patched)
    overlay.apply(root, manifest)
    assert overlay.verify(root, manifest) == []
    for name in manifest.patched:
        overlay.revert(root, manifest, [name])
        assert tree.hashes(root, manifest) == target_hashes(root, manifest, everything - {name})
        overlay.apply(root, manifest, [name])
    assert overlay.verify(root, manifest) == []


def test_one_edited_byte_of_any_file_shows_in_what_it_belongs_to(root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    for path in manifest.hashes:
        states = engine_states.edited(root, path)
        assert {name for name, state in states.items() if state == "edited"} == {
            o.name for o in manifest.optimizations if path in o.files
        }
    assert overlay.verify(root, manifest) == []


def test_killed_over_fifty_times_no_half_tree_verifies_and_the_next_run_completes(
    root: Path, manifest: Manifest
) -> None:
    assert killed.apply_killed_at_every(11, root, manifest) >= 50


def test_every_combination_is_a_clean_git_am(root: Path, manifest: Manifest, line: str) -> None:
    def git(*args: str) -> None:
        identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(root), *identity, *args], check=True, capture_output=True)

    git("init", "--quiet")
    git("add", "vllm")
    git("commit", "--quiet", "-m", "release")
    git("tag", "release")
    folder = manifests.series_folder() / f"v{line}"
    patch_of = {o.name: str(folder / o.patch) for o in manifest.optimizations if o.patch}
    for names in subsets(manifest):
        git("reset", "--quiet", "--hard", "release")
        git("am", "--quiet", *(patch_of[name] for name in manifest.patched if name in names))
        assert tree.hashes(root, manifest) == target_hashes(root, manifest, names)


def test_every_patched_file_parses(root: Path, manifest: Manifest) -> None:
    for names in subsets(manifest):
        for path in manifest.targets:
            stock = (root / path).read_bytes()
            ast.parse(overlay.contents(manifest, path, stock, STOCK, names & set(manifest.touching(path))))


def test_what_upstream_has_cannot_be_switched(manifest: Manifest, line: str) -> None:
    switchable = {o.name: o.switchable for o in manifest.optimizations}
    assert toggles.parse(",".join(manifest.patched), switchable) == set(manifest.patched)
    assert {name for name, can in switchable.items() if not can} == UPSTREAM[line]
