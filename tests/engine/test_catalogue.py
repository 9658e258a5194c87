"""The operator's catalogue is the manifests', and says what a verified engine answers."""

from pathlib import Path

import pytest

from specdecode_engine import attestation, catalogue, manifests, overlay

COPY = Path(__file__).parents[2] / "operator/specdecode_operator/api/catalogue.json"


def test_the_operators_copy_is_fresh() -> None:
    assert catalogue.main(["--check", str(COPY)]) == 0


def test_a_copy_that_is_not_fresh_is_told_with_the_command_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "catalogue.json"
    copy.write_text(catalogue.text().replace("splitkv", "split-kv"))
    assert catalogue.main(["--check", str(copy)]) == 1
    assert f"python -m specdecode_engine.catalogue > {copy}" in capsys.readouterr().err


def test_an_engine_with_the_whole_series_answers_what_the_catalogue_says(root: Path, series: Path) -> None:
    (entry,) = catalogue.catalogue(series)["series"]  # type: ignore[misc]
    manifest = manifests.load(entry["line"], series)
    overlay.apply(root, manifest)
    said = attestation.attest(root, manifest, {}).document()
    assert (said["release"], said["series"]) == (entry["line"], entry["series"])
    assert said["manifest_digest"] == entry["manifest_digest"]
    for of in ("name", "state", "origin", "switchable"):
        assert [row[of] for row in said["optimizations"]] == [row[of] for row in entry["optimizations"]]  # type: ignore[attr-defined]
