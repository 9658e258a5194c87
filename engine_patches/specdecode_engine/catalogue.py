"""What an operator has to know of every series, as one file: `python -m specdecode_engine.catalogue`.

The operator's copy is written by this command from the manifests, which stay the only source; `--check` says whether a
copy is fresh.  A digest in it is what `/specdecode/attestation` of an engine with that whole series answers.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from specdecode_engine import manifests
from specdecode_engine.manifests import Manifest, Optimization

FORMAT = 1


def catalogue(folder: Path | None = None) -> dict[str, object]:
    """Every line's series, oldest line first."""
    folder = folder or manifests.series_folder()
    return {"format": FORMAT, "series": [_series(manifests.load(line, folder)) for line in manifests.lines(folder)]}


def text(folder: Path | None = None) -> str:
    """The catalogue as its file has it."""
    return json.dumps(catalogue(folder), indent=1) + "\n"


def _series(manifest: Manifest) -> dict[str, object]:
    return {
        "line": manifest.release,
        "series": manifest.series,
        "manifest_digest": manifest.digest,
        "optimizations": [_optimization(row) for row in manifest.optimizations],
    }


def _optimization(row: Optimization) -> dict[str, object]:
    """`state` is what the row of a verified tree says while the optimization is not switched off."""
    return {
        "name": row.name,
        "state": "active" if row.patch is not None else "upstream",
        "origin": row.origin,
        "switchable": row.switchable,
        "spans": list(row.spans),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print it, or compare a copy.  Returns the exit code: 1 for a copy that is not fresh."""
    parser = argparse.ArgumentParser(prog="python -m specdecode_engine.catalogue", description=__doc__)
    parser.add_argument("--check", type=Path, metavar="COPY", help="compare this file instead of printing")
    copy: Path | None = parser.parse_args(argv).check
    fresh = text()
    if copy is None:
        print(fresh, end="")
        return 0
    if copy.is_file() and copy.read_text() == fresh:
        return 0
    print(f"{copy} is not what the manifests say; run: python -m specdecode_engine.catalogue > {copy}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
