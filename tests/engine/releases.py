"""A small release with a series of its own, so that the overlay is tested without vLLM: same formats, same code."""

import difflib
import json
from pathlib import Path

from specdecode_engine import manifests, seal
from specdecode_engine.manifests import Manifest

RELEASE = "1.2.3"
STOCK = {f"vllm/{name}.py": "".join(f"{name} line {n}\n" for n in range(40)) for name in "abcd"}

# name -> file -> (line, its replacement): "inner" and "outer" share a file, "telemetry" touches all of them
EDITS: dict[str, dict[str, tuple[int, list[str]]]] = {
    "inner": {"vllm/a.py": (10, ["inner 1\n", "inner 2\n"])},
    "outer": {"vllm/a.py": (20, ["outer\n"]), "vllm/b.py": (3, [])},
    "telemetry": {f"vllm/{name}.py": (30, ["t\n", "u\n", "v\n"]) for name in "abc"},
}


def patch_of(edits: dict[str, tuple[int, list[str]]]) -> bytes:
    """A patch that replaces one line in each file by others."""
    text = ""
    for path, (line, new) in edits.items():
        old = STOCK[path].splitlines(keepends=True)
        text += "".join(difflib.unified_diff(old, [*old[:line], *new, *old[line + 1 :]], f"a/{path}", f"b/{path}"))
    return text.encode()


def write_series(folder: Path, release: str = RELEASE) -> None:
    """The series and its sealed manifest, as `specdecode_engine.seal` writes them."""
    line = folder / f"v{release}"
    line.mkdir(parents=True)
    rows = [row(name, patch=f"{name}.patch") for name in EDITS]
    rows.append(row("built-in", patch=None, files=["vllm/d.py"]))
    declared = {"format": 1, "release": release, "wheels": {"x86_64": "0" * 64}, "optimizations": rows}
    for name, edits in EDITS.items():
        (line / f"{name}.patch").write_bytes(patch_of(edits))
    sealed = seal.seal(declared, lambda path: STOCK[path].encode(), lambda name: (line / name).read_bytes())
    (line / "manifest.json").write_text(json.dumps(sealed))


def row(name: str, *, patch: str | None, files: list[str] | None = None) -> dict[str, object]:
    return {
        "name": name,
        "origin": "carried" if patch else "upstream",
        "switchable": patch is not None,
        "patch": patch,
        "files": files or [],
        "spans": [],
        "note": "",
    }


def install(root: Path, release: str = RELEASE) -> None:
    """The release's files as an installer leaves them."""
    (root / f"vllm-{release}.dist-info").mkdir(parents=True)
    for path, text in STOCK.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def manifest(series: Path) -> Manifest:
    return manifests.load(RELEASE, series)


def content(root: Path) -> dict[str, bytes]:
    """Every file under `root`, whatever it is."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
