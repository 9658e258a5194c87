"""Which wheels a line's manifest may be sealed from."""

import zipfile
from pathlib import Path

import pytest
import releases

from specdecode_engine import manifests, seal, tree
from specdecode_local import paths

LOCKS = paths.REPOSITORY / "images" / "engine-files" / "lines"


def wheel(folder: Path, *, changed: str | None = None) -> Path:
    """The small release as a wheel; `changed` names a file that is another in it."""
    file = folder / f"vllm-{releases.RELEASE}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in releases.STOCK.items():
            archive.writestr(path, f"# {text}" if path == changed else text)
    return file


def sealed(series: Path, file: Path, machine: str) -> int:
    return seal.main([releases.RELEASE, "--wheel", str(file), "--machine", machine, "--series", str(series)])


@pytest.fixture
def series(tmp_path: Path) -> Path:
    releases.write_series(tmp_path / "series")
    return tmp_path / "series"


def test_the_wheel_of_another_machine_with_the_same_files_is_added(series: Path, tmp_path: Path) -> None:
    before = manifests.load(releases.RELEASE, series)
    file = wheel(tmp_path)
    assert sealed(series, file, "aarch64") == 0
    after = manifests.load(releases.RELEASE, series)
    assert after.wheels == {**before.wheels, "aarch64": tree.sha256(file.read_bytes())}
    assert after.hashes == before.hashes


def test_a_wheel_with_another_file_is_refused_and_the_manifest_stays(
    series: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = series / f"v{releases.RELEASE}" / "manifest.json"
    before = manifest.read_bytes()
    assert sealed(series, wheel(tmp_path, changed="vllm/d.py"), "aarch64") == 1
    assert manifest.read_bytes() == before
    assert "vllm/d.py" in capsys.readouterr().err


@pytest.mark.parametrize("line", manifests.lines(manifests.series_folder()))
def test_every_machines_wheel_is_one_that_the_engines_base_may_install(line: str) -> None:
    wheels = manifests.load(line).wheels
    assert set(wheels) == {"x86_64", "aarch64"}
    lock = (LOCKS / f"{line}.lock").read_text()
    assert f"vllm=={line} " in lock
    assert [machine for machine, digest in wheels.items() if f"--hash=sha256:{digest}" not in lock] == []
