"""Writes a line's manifest from the release's wheel and the patches: `python -m specdecode_engine.seal --help`.

Run by whoever changes a patch.  Every combination of patches is applied to every file, so a series whose patches do
not combine cannot be sealed.
"""

import argparse
import itertools
import json
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from specdecode_engine import hunks, manifests, tree

STOCK = manifests.key(())


def hashes_of(stock: bytes, order: list[tuple[str, hunks.FilePatch]]) -> dict[str, str]:
    """sha256 of one file for every combination of the patches that touch it, keyed as in the manifest."""
    combinations = itertools.chain.from_iterable(itertools.combinations(order, n) for n in range(len(order) + 1))
    return {manifests.key(name for name, _ in chosen): tree.sha256(_with(stock, chosen)) for chosen in combinations}


def _with(content: bytes, chosen: Iterable[tuple[str, hunks.FilePatch]]) -> bytes:
    for _, patch in chosen:
        content = hunks.apply(content, patch)
    return content


def seal(declared: Mapping[str, Any], read_stock: Any, read_patch: Any) -> dict[str, Any]:
    """The manifest for `declared` (the manifest without `files`, and without `files` of rows that have a patch)."""
    touching: dict[str, list[tuple[str, hunks.FilePatch]]] = {}
    rows = []
    for row in declared["optimizations"]:
        if row["patch"] is not None:
            patches = hunks.parse(read_patch(row["patch"]))
            row = {**row, "files": [patch.path for patch in patches]}
            for patch in patches:
                touching.setdefault(patch.path, []).append((row["name"], patch))
        for path in row["files"]:
            touching.setdefault(path, [])
        rows.append(row)
    files = {path: hashes_of(read_stock(path), touching[path]) for path in sorted(touching)}
    return {**declared, "optimizations": rows, "files": files}


def other_than(known: Mapping[str, Mapping[str, str]], sealed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Files whose stock content is another than the one known from an earlier wheel: a release has only one."""
    return [path for path, of in sealed.items() if path in known and of[STOCK] != known[path][STOCK]]


def main(argv: Sequence[str] | None = None) -> int:
    """Seal one line in place.  Returns 1, with nothing written, if the wheel is not of the release that was sealed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release", help="for example 0.33.0")
    parser.add_argument("--wheel", type=Path, required=True, help="the release's wheel")
    parser.add_argument("--machine", default="x86_64", help="the machine that the wheel is for")
    parser.add_argument("--series", type=Path, default=manifests.series_folder(), help="folder of the series")
    args = parser.parse_args(argv)
    folder = args.series / f"v{args.release}"
    path = folder / "manifest.json"
    declared = json.loads(path.read_text())
    declared["wheels"][args.machine] = tree.sha256(args.wheel.read_bytes())
    with zipfile.ZipFile(args.wheel) as wheel:
        sealed = seal(declared, wheel.read, lambda name: (folder / name).read_bytes())
    if other := other_than(declared.get("files", {}), sealed["files"]):
        print(f"{args.wheel}: not the files that {path} was sealed from: {', '.join(other)}", file=sys.stderr)
        return 1
    path.write_text(json.dumps(sealed, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
