"""The overlay on a small release: all or nothing, whatever the order, whoever edited, whenever it is killed."""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import killed
import pytest
import releases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode_engine import __main__ as cli
from specdecode_engine import overlay, tree
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest

NAMES = tuple(releases.EDITS)


def refused(run: Callable[[], object]) -> list[str]:
    reasons = reasons_of_refusal(run)
    assert reasons, "not refused"
    return reasons


def test_a_stock_tree_has_nothing_applied_and_does_not_verify(root: Path, manifest: Manifest) -> None:
    assert {f.subject: f.reason for f in overlay.verify(root, manifest)} == dict.fromkeys(NAMES, "not applied")


def test_apply_then_verify_then_revert_is_the_release_again(root: Path, manifest: Manifest) -> None:
    stock = releases.content(root)
    overlay.apply(root, manifest)
    assert overlay.verify(root, manifest) == []
    assert (root / "vllm/a.py").read_text().splitlines()[10:12] == ["inner 1", "inner 2"]
    overlay.revert(root, manifest)
    assert releases.content(root) == stock


@given(steps=st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(NAMES), min_size=1)), max_size=8))
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_apply_and_revert_gives_the_same_tree_as_its_subset_alone(
    steps: list[tuple[bool, set[str]]], manifest: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    walked, fresh = tmp_path_factory.mktemp("walked"), tmp_path_factory.mktemp("fresh")
    releases.install(walked / "root")
    releases.install(fresh / "root")
    inside: set[str] = set()
    for put_in, names in steps:
        command = overlay.apply if put_in else overlay.revert
        with contextlib.suppress(Refused):
            command(walked / "root", manifest, names)
        inside = inside | names if put_in else inside - names
    if inside:
        overlay.apply(fresh / "root", manifest, inside)
    assert releases.content(walked / "root") == releases.content(fresh / "root")
    assert tree.applied(manifest, tree.hashes(walked / "root", manifest)) == inside


def test_a_second_apply_is_refused(root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    assert refused(lambda: overlay.apply(root, manifest)) == ["already applied"]


def test_reverting_a_stock_tree_is_refused(root: Path, manifest: Manifest) -> None:
    assert refused(lambda: overlay.revert(root, manifest)) == ["already reverted"]


@pytest.mark.parametrize("path", ["vllm/a.py", "vllm/c.py", "vllm/d.py"])
@pytest.mark.parametrize("patched", [False, True])
def test_one_edited_byte_anywhere_shows_and_stops_everything(
    root: Path, manifest: Manifest, path: str, patched: bool
) -> None:
    if patched:
        overlay.apply(root, manifest)
    edited = bytearray((root / path).read_bytes())
    edited[5] ^= 1
    (root / path).write_bytes(bytes(edited))
    before = releases.content(root)
    for command in (overlay.apply, overlay.revert):
        assert refused(lambda command=command: command(root, manifest)) == ["edited file"]  # type: ignore[misc]
    assert "edited file" in {finding.reason for finding in overlay.verify(root, manifest)}
    rows = {row.name: row.state for row in tree.states(manifest, tree.hashes(root, manifest))}
    assert {name for name, state in rows.items() if state == "edited"} == {
        o.name for o in manifest.optimizations if path in o.files
    }
    assert releases.content(root) == before


def test_a_missing_file_is_named_with_what_to_do(root: Path, manifest: Manifest) -> None:
    (root / "vllm/b.py").unlink()
    with pytest.raises(Refused) as caught:
        overlay.apply(root, manifest)
    (finding,) = caught.value.findings
    assert (finding.reason, finding.subject, finding.found) == ("missing file", "vllm/b.py", "no file")
    assert "Install vLLM 1.2.3 again" in finding.action


def test_all_wrong_files_are_reported_at_once(root: Path, manifest: Manifest) -> None:
    (root / "vllm/b.py").unlink()
    (root / "vllm/a.py").write_text("other")
    assert sorted(refused(lambda: overlay.apply(root, manifest))) == ["edited file", "missing file"]


def test_half_a_patch_is_refused_and_named(root: Path, manifest: Manifest) -> None:
    stock = (root / "vllm/b.py").read_bytes()
    overlay.apply(root, manifest, ["outer"])
    (root / "vllm/b.py").write_bytes(stock)
    assert refused(lambda: overlay.apply(root, manifest)) == ["half a patch"]


def test_a_tree_this_user_cannot_write_is_left_alone(manifest: Manifest) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's folders are closed to other users
        root = Path(name) / "site-packages"
        releases.install(root)
        stock = releases.content(root)
        for folder, mode in ((Path(name), 0o755), (root, 0o555), (root / "vllm", 0o555)):
            folder.chmod(mode)
        try:
            said = killed.in_a_child(lambda: reasons_of_refusal(lambda: overlay.apply(root, manifest)), user=65534)
        finally:
            root.chmod(0o755)
            (root / "vllm").chmod(0o755)
        assert said == ["read-only tree"]
        assert releases.content(root) == stock


def reasons_of_refusal(run: Callable[[], object]) -> list[str]:
    try:
        run()
    except Refused as refused:
        return [finding.reason for finding in refused.findings]
    return []


def test_a_hard_link_into_a_package_cache_keeps_the_release(root: Path, manifest: Manifest, tmp_path: Path) -> None:
    cached = tmp_path / "cached.py"
    os.link(root / "vllm/a.py", cached)
    overlay.apply(root, manifest)
    assert cached.read_text() == releases.STOCK["vllm/a.py"]


def test_mode_stays_and_stale_bytecode_goes(root: Path, manifest: Manifest) -> None:
    (root / "vllm/a.py").chmod(0o640)
    stale = root / "vllm/__pycache__/a.cpython-312.pyc"
    stale.parent.mkdir()
    stale.write_bytes(b"old")
    overlay.apply(root, manifest)
    assert (root / "vllm/a.py").stat().st_mode & 0o777 == 0o640
    assert not stale.exists()


def test_a_series_that_is_not_the_manifests_changes_nothing(tmp_path: Path, root: Path) -> None:
    releases.write_series(tmp_path / "series")
    patch = tmp_path / "series" / f"v{releases.RELEASE}" / "inner.patch"
    patch.write_bytes(patch.read_bytes().replace(b"inner 1", b"inner 9"))
    stock = releases.content(root)
    assert refused(lambda: overlay.apply(root, releases.manifest(tmp_path / "series"))) == [
        "series and manifest differ"
    ]
    assert releases.content(root) == stock


def test_killed_at_every_step_no_half_tree_verifies_and_the_next_run_completes(root: Path, manifest: Manifest) -> None:
    assert killed.apply_killed_at_every(2, root, manifest) >= 50


def test_a_file_changed_after_an_interrupted_run_is_refused(
    root: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(overlay, "_move", die)
        with pytest.raises(KeyboardInterrupt):
            overlay.apply(root, manifest)
    assert "interrupted run" in {finding.reason for finding in overlay.verify(root, manifest)}
    (root / "vllm/c.py").write_text("someone else's")
    assert reasons_of_refusal(lambda: overlay.apply(root, manifest)) == ["changed since an interrupted run"]


def run_cli(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object]]:
    code = cli.main([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_command_refuses_another_release(root: Path, series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run_cli(capsys, "apply", "--root", str(root), "--series", str(series), "--release", "9.9.9")
    assert code == 1
    assert [finding["reason"] for finding in said["findings"]] == ["another release"]  # type: ignore[index,attr-defined]


def test_the_command_refuses_a_release_without_a_series(
    tmp_path: Path, series: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    releases.install(tmp_path / "old", release="0.9.0")
    code, said = run_cli(capsys, "list", "--root", str(tmp_path / "old"), "--series", str(series))
    assert code == 1
    assert [finding["reason"] for finding in said["findings"]] == ["no series for this release"]  # type: ignore[index,attr-defined]


def test_the_command_lists_applies_verifies_and_reverts(
    root: Path, series: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("--root", str(root), "--series", str(series), "--release", releases.RELEASE)
    states = []
    for command in (["apply", "inner"], ["apply"], ["revert", "telemetry"], ["revert"]):
        assert run_cli(capsys, *command, *at)[0] == 0
        _, listed = run_cli(capsys, "list", *at)
        states.append([row["state"] for row in listed["rows"]])  # type: ignore[index,attr-defined]
    assert states == [
        ["active", "absent", "absent", "upstream"],
        ["active", "active", "active", "upstream"],
        ["active", "active", "absent", "upstream"],
        ["absent", "absent", "absent", "upstream"],
    ]
    assert run_cli(capsys, "verify", *at)[0] == 1


def test_a_local_version_is_the_same_release(tmp_path: Path) -> None:
    (tmp_path / "vllm-0.33.0+cpu.dist-info").mkdir()
    assert tree.release_of(tmp_path) == "0.33.0"
