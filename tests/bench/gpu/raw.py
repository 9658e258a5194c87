"""Raw files: one a round, JSON lines in gzip, added to as results come.

    {"format": 1, "line": "0.33.0", "method": "dspark", "round": 0, "seed": 1, "arms": [...], "trees": {...}, ...}
    {"ready": "series", "seconds": 64.2, "miss_seconds": 0.61, "facts": {...}}   or {"failed": "series", "said": "..."}
    {"visit": {"round": 0, "sweep": 0, "leg": 0, "arm": "series"}, "requests": [{"cached": 31680, "first": ...}, ...]}

Each line is a gzip member of its own, so a campaign that is killed loses at most the line it was writing.
"""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1


@dataclass
class Round:
    """What one file says."""

    head: dict[str, Any]
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Arm -> how it started."""
    failed: dict[str, str] = field(default_factory=dict)
    """Arm -> the last that it said."""
    visits: list[dict[str, Any]] = field(default_factory=list)


def path(out: Path, line: str, method: str, round: int) -> Path:
    """The file of one round."""
    return out / f"{line}-{method}-{round}.json.gz"


def next_round(out: Path, line: str, method: str) -> int:
    """The first round that has no file yet."""
    taken = [int(found.name.split("-")[-1].split(".")[0]) for found in out.glob(f"{line}-{method}-*.json.gz")]
    return max(taken, default=-1) + 1


def add(file: Path, line: Mapping[str, Any]) -> None:
    """One line more."""
    with file.open("ab") as out:
        out.write(gzip.compress(json.dumps(line, separators=(",", ":")).encode() + b"\n"))


def read(file: Path) -> Round:
    """A round's file.  Raises ValueError as `lines` does."""
    head, *rest = lines(file)
    found = Round(head)
    for line in rest:
        if "ready" in line:
            found.ready[line["ready"]] = line
        elif "failed" in line:
            found.failed[line["failed"]] = line["said"]
        else:
            found.visits.append(line)
    return found


def lines(file: Path) -> list[dict[str, Any]]:
    """A file's lines up to where it breaks off, if it does.

    Raises ValueError, naming the file, if it does not begin with a head of this format.
    """
    found = [json.loads(line) for line in _whole_lines(file)]
    if not found or found[0].get("format") != FORMAT:
        raise ValueError(f"{file}: not the raw file of a measurement in format {FORMAT}")
    return found


def _whole_lines(file: Path) -> Iterator[bytes]:
    """One a gzip member, up to the first that is not whole."""
    rest = file.read_bytes()
    while rest:
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            line = member.decompress(rest)
        except zlib.error:
            return
        if not member.eof:
            return
        yield line
        rest = member.unused_data
