"""What an engine says of itself follows from its files, its switches and what its pod expects."""

import json
from pathlib import Path

import pytest

from specdecode_engine import attestation, manifests, overlay, start
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest


def test_the_whole_series_is_attested_with_its_digest(root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    said = attestation.attest(root, manifest, {attestation.EXPECTED: manifest.digest}).document()
    assert said["ok"] is True
    assert said["manifest_digest"] == manifest.digest
    assert json.loads(json.dumps(said)) == said


def test_what_is_switched_off_says_disabled(root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    said = attestation.attest(root, manifest, {"SPECDECODE_DISABLE": " telemetry, inner"})
    assert said.document()["disabled"] == ["inner", "telemetry"]
    assert {row.name: said.state_of(row) for row in said.rows} == {
        "inner": "disabled",
        "outer": "active",
        "telemetry": "disabled",
        "built-in": "upstream",
    }


def test_an_edited_file_is_not_attested(root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    (root / "vllm/c.py").write_text("edited")
    said = attestation.attest(root, manifest, {})
    assert not said.ok
    assert {finding.subject for finding in said.findings} == {"vllm/c.py"}


def test_another_digest_than_the_pod_expects_is_not_attested(root: Path, manifest: Manifest) -> None:
    overlay.apply(root, manifest)
    result = attestation.attest(root, manifest, {attestation.EXPECTED: "f" * 64})
    (finding,) = result.findings
    assert finding.found == manifest.digest
    assert result.document()["expected_manifest"] == "f" * 64


@pytest.mark.parametrize("value", [None, ""])
def test_a_pod_that_expects_nothing_is_attested_as_it_is(root: Path, manifest: Manifest, value: str | None) -> None:
    overlay.apply(root, manifest)
    said = attestation.attest(root, manifest, {} if value is None else {attestation.EXPECTED: value}).document()
    assert (said["ok"], said["expected_manifest"], said["disabled"]) == (True, None, [])


def test_a_switch_that_is_none_is_refused(root: Path, manifest: Manifest) -> None:
    with pytest.raises(Refused):
        attestation.attest(root, manifest, {"SPECDECODE_DISABLE": "built-in"})


@pytest.fixture
def started(root: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(start, "installed_root", lambda: root)
    monkeypatch.setattr(manifests, "of_installed_release", lambda: manifest)
    overlay.apply(root, manifest)
    return root


@pytest.mark.usefixtures("started")
def test_an_engine_with_the_whole_series_starts() -> None:
    start.check()


def test_an_edited_file_stops_the_start_with_a_plain_message(started: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (started / "vllm/a.py").write_text("edited")
    with pytest.raises(SystemExit):
        start.check()
    said = capsys.readouterr().err
    assert "this engine does not start" in said
    assert "vllm/a.py: edited file" in said
    assert "Traceback" not in said


@pytest.mark.usefixtures("started")
def test_an_unknown_switch_stops_the_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SPECDECODE_DISABLE", "nonsense")
    with pytest.raises(SystemExit):
        start.check()
    assert "unknown optimization: found nonsense, expected inner, outer, telemetry" in capsys.readouterr().err
