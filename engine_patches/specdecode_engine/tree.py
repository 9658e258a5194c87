"""What is installed: the hash of each file, hence which patches are in it, hence the state of each optimization."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specdecode_engine.errors import Finding, Refused
from specdecode_engine.manifests import STOCK, Manifest, Optimization

JOURNAL_FOLDER = ".specdecode-overlay"
JOURNAL = "journal.json"

# active: its patch is in every file it changes; upstream: the release's own files, as pinned, hold it;
# absent: in none; half: in some; edited: a file of it is neither the release's nor the series'; missing: gone.
State = Literal["active", "upstream", "absent", "half", "edited", "missing"]

_DIST_INFO = re.compile(r"^vllm(?:_cpu)?-(?P<version>[^-]+)\.dist-info$")


@dataclass(frozen=True)
class Row:
    """The state of one optimization in one tree."""

    name: str
    state: State
    origin: str
    switchable: bool
    files: tuple[str, ...]

    def row(self) -> dict[str, object]:
        """The same as one JSON object."""
        return {
            "name": self.name,
            "state": self.state,
            "origin": self.origin,
            "switchable": self.switchable,
            "files": list(self.files),
        }


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def release_of(root: Path) -> str:
    """The release installed under `root`, a site-packages folder, from its dist-info folder.

    A local version part is left out: a CPU build of a line has the line's Python files.
    Raises Refused if there is none, or more than one.
    """
    found = sorted(
        match["version"] for entry in root.glob("vllm*.dist-info") if (match := _DIST_INFO.match(entry.name))
    )
    if len(found) != 1:
        raise Refused(
            [
                Finding(
                    reason="no single vLLM here",
                    subject=str(root),
                    found=", ".join(found) or "no vllm-*.dist-info",
                    expected="exactly one installed vLLM",
                    action="Give the site-packages folder of the engine with --root.",
                )
            ]
        )
    return found[0].partition("+")[0]


def hashes(root: Path, manifest: Manifest) -> dict[str, str | None]:
    """The sha256 of each file that the manifest knows; None for one that is not there."""
    return {path: sha256((root / path).read_bytes()) if (root / path).is_file() else None for path in manifest.hashes}


def patches_in(manifest: Manifest, path: str, found: str | None) -> frozenset[str] | None:
    """Which patches a file with this hash has; None if the line never had such a file."""
    return next((names for names, known in manifest.hashes[path].items() if known == found), None)


def strangers(manifest: Manifest, found: Mapping[str, str | None]) -> list[Finding]:
    """One finding for each file that is missing or edited."""
    return [
        _stranger(manifest, path, value) for path, value in found.items() if patches_in(manifest, path, value) is None
    ]


def deviations(manifest: Manifest, found: Mapping[str, str | None]) -> list[Finding]:
    """What keeps files with these hashes from being the release plus the whole series."""
    missing = [row for row in states(manifest, found) if row.state in ("absent", "half")]
    return [*strangers(manifest, found), *map(_not_applied, missing)]


def applied(manifest: Manifest, found: Mapping[str, str | None]) -> frozenset[str]:
    """The patches in this tree.

    Raises Refused for an edited or missing file, and for a patch that is in some of its files and not in others.
    """
    if bad := strangers(manifest, found):
        raise Refused(bad)
    rows = states(manifest, found)
    if half := [row for row in rows if row.state == "half"]:
        raise Refused([_half(manifest, row, found) for row in half])
    return frozenset(row.name for row in rows if row.state == "active")


def states(manifest: Manifest, found: Mapping[str, str | None]) -> list[Row]:
    """The state of every optimization, in the order of the series."""
    return [Row(o.name, _state(manifest, o, found), o.origin, o.switchable, o.files) for o in manifest.optimizations]


def _state(manifest: Manifest, of: Optimization, found: Mapping[str, str | None]) -> State:
    if any(found[path] is None for path in of.files):
        return "missing"
    inside = [patches_in(manifest, path, found[path]) for path in of.files]
    if any(names is None for names in inside):
        return "edited"
    if of.patch is None:
        return "upstream"
    present = [of.name in (names or STOCK) for names in inside]
    return "active" if all(present) else "half" if any(present) else "absent"


def _stranger(manifest: Manifest, path: str, found: str | None) -> Finding:
    stock = manifest.hashes[path][STOCK]
    return Finding(
        reason="missing file" if found is None else "edited file",
        subject=path,
        found="no file" if found is None else f"sha256 {found}",
        expected=f"sha256 {stock} (vLLM {manifest.release}) or one of {len(manifest.hashes[path]) - 1} patched forms",
        action=f"Install vLLM {manifest.release} again, unedited, then run: specdecode-engine apply",
    )


def _half(manifest: Manifest, row: Row, found: Mapping[str, str | None]) -> Finding:
    without = [path for path in row.files if row.name not in (patches_in(manifest, path, found[path]) or STOCK)]
    return Finding(
        reason="half a patch",
        subject=row.name,
        found=f"not in {', '.join(without)}",
        expected=f"in all of {', '.join(row.files)}, or in none",
        action=f"Install vLLM {manifest.release} again, then run: specdecode-engine apply",
    )


def _not_applied(row: Row) -> Finding:
    return Finding(
        reason="not applied",
        subject=row.name,
        found=row.state,
        expected="active",
        action="Run: specdecode-engine apply",
    )
