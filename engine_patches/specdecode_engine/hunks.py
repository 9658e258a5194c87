"""Unified diffs, applied strictly: every context line must match, nothing is fuzzy, and a patch can be turned round.

The overlay needs neither git nor patch(1) in the image.  Line numbers are only a hint, because other patches of the
series may have moved the lines; the caller checks the result's hash, which settles any doubt.
Only changes of existing text files are understood: a series never adds, deletes or renames a file of vLLM.
"""

import re
from dataclasses import dataclass

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_FILE_OLD = b"--- "
_FILE_NEW = b"+++ "


class Mismatch(Exception):
    """A hunk's old lines are not in the file."""


class Malformed(Exception):
    """The patch is not one this module understands."""


@dataclass(frozen=True)
class Hunk:
    """Lines `old`, near line `start` (from 1), become `new`."""

    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]

    def reversed(self, start: int) -> "Hunk":
        return Hunk(start, self.new, self.old)


@dataclass(frozen=True)
class FilePatch:
    """All hunks of one file, in order."""

    path: str
    hunks: tuple[Hunk, ...]

    def reversed(self) -> "FilePatch":
        moved, turned = 0, []
        for hunk in self.hunks:
            turned.append(hunk.reversed(hunk.start + moved))
            moved += len(hunk.new) - len(hunk.old)
        return FilePatch(self.path, tuple(turned))


def parse(patch: bytes) -> list[FilePatch]:
    """The files that a patch (of `git format-patch`) changes.

    Raises Malformed for a patch that adds, deletes or renames a file, or whose hunks end early.
    """
    lines = patch.splitlines(keepends=True)
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if not (lines[at].startswith(_FILE_OLD) and at + 1 < len(lines) and lines[at + 1].startswith(_FILE_NEW)):
            at += 1
            continue
        old, new = _name(lines[at]), _name(lines[at + 1])
        if old != new:
            raise Malformed(f"{old} becomes {new}: a series only changes files that exist")
        hunks, at = _hunks(lines, at + 2)
        files.append(FilePatch(old, tuple(hunks)))
    return files


def apply(text: bytes, patch: FilePatch) -> bytes:
    """`text` with every hunk applied.  Raises Mismatch, naming the hunk, if one does not fit exactly."""
    lines = text.splitlines(keepends=True)
    out: list[bytes] = []
    taken = moved = 0
    for hunk in patch.hunks:
        at = _find(lines, hunk, hint=hunk.start - 1 + moved, floor=taken)
        if at is None:
            raise Mismatch(f"{patch.path}: the lines at @@ -{hunk.start},{len(hunk.old)} are not there")
        moved = at - (hunk.start - 1)
        out += lines[taken:at]
        out += hunk.new
        taken = at + len(hunk.old)
    return b"".join(out + lines[taken:])


def _name(line: bytes) -> str:
    name = line[4:].split(b"\t")[0].strip().decode()
    return name if name == "/dev/null" else name.partition("/")[2]


def _hunks(lines: list[bytes], at: int) -> tuple[list[Hunk], int]:
    hunks: list[Hunk] = []
    while at < len(lines) and (head := _HUNK.match(lines[at])):
        want_old, want_new = int(head[2] or 1), int(head[4] or 1)
        old: list[bytes] = []
        new: list[bytes] = []
        at += 1
        while len(old) < want_old or len(new) < want_new:
            if at == len(lines) or lines[at][:1] not in b" -+\n":
                raise Malformed(f"hunk {lines[at - 1]!r} ends early")
            tag, line = lines[at][:1], lines[at][1:]
            at += 1
            if tag == b"\n":  # an empty context line whose only blank was stripped
                tag, line = b" ", b"\n"
            if tag in b" -":
                old.append(line)
            if tag in b" +":
                new.append(line)
        if at < len(lines) and lines[at].startswith(b"\\"):
            raise Malformed("a file without a newline at its end")
        hunks.append(Hunk(int(head[1]), tuple(old), tuple(new)))
    return hunks, at


def _find(lines: list[bytes], hunk: Hunk, *, hint: int, floor: int) -> int | None:
    """Where the hunk's old lines are, nearest to `hint` and not before `floor`."""
    last = len(lines) - len(hunk.old)
    fits = (at for at in range(floor, last + 1) if tuple(lines[at : at + len(hunk.old)]) == hunk.old)
    return min(fits, key=lambda at: abs(at - hint), default=None)
