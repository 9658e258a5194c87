"""What a pod's process says of its own files, read with distrust: of a known shape, bounded, and fit to be repeated.

The answer comes from the pod, and a pod that differs may answer anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

LONGEST: Final = 256 * 1024
"""Bytes of an answer that are read; a true one has about 3,000."""
WORD: Final = 128
"""Characters of a text of the pod's that a message repeats."""
FINDINGS: Final = 3
"""Findings of the pod's own check that a message repeats."""
ROWS: Final = 64
"""Optimizations in an answer; a series has fewer than ten."""
ABSENT: Final = frozenset({404, 405, 501})
"""HTTP statuses of a server that doesn't know the path."""


@dataclass(frozen=True)
class Attestation:
    """An attestation, as it was given."""

    ok: bool
    """Whether the process' own check found nothing wrong, by its word and by its findings."""
    release: str
    manifest_digest: str
    states: Mapping[str, str]
    """Optimization to state."""
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Absent:
    """The server doesn't know the path: an engine without our package."""

    status: int


@dataclass(frozen=True)
class Garbled:
    """An answer that is no attestation. `what` says so in words."""

    what: str


@dataclass(frozen=True)
class Silence:
    """No answer, tried again and again. `why` stays the same while nothing else happens."""

    why: str


Said = Attestation | Absent | Garbled | Silence


@dataclass(frozen=True)
class Answer:
    """What one process of a pod's container has said."""

    process: str
    """Which one was asked: after a restart of the container it is another."""
    said: Said


def read(status: int, body: bytes) -> Said:
    """What an HTTP answer says. `body` may be cut off one byte beyond LONGEST, never sooner."""
    if status in ABSENT:
        return Absent(status)
    if status != 200:
        return Silence(f"it answers {status}")
    if len(body) > LONGEST:
        return Garbled(f"more than {LONGEST // 1024} KiB")
    try:
        document = json.loads(body, object_pairs_hook=_said_once)
    except _SaidTwice:
        return Garbled("JSON that says one thing twice")
    except (ValueError, RecursionError):
        return Garbled("something that isn't JSON")
    try:
        return _testimony(document)
    except _SaidTwice:
        return Garbled("one optimization twice")
    except (KeyError, TypeError, ValueError):
        return Garbled("JSON of another shape")


class _SaidTwice(ValueError):
    """Of two answers to one question, neither counts."""


def _testimony(document: Any) -> Attestation:
    """Raises KeyError, TypeError or ValueError for any other shape. A check that found something isn't passed,
    whatever it calls itself."""
    if not isinstance(document["ok"], bool):
        raise TypeError("ok")
    rows = document["optimizations"]
    findings = document["findings"]
    if not isinstance(rows, list) or not isinstance(findings, list) or len(rows) > ROWS:
        raise ValueError("rows")
    return Attestation(
        ok=document["ok"] and not findings,
        release=_word(document["release"]),
        manifest_digest=_word(document["manifest_digest"]),
        states=_said_once([(_word(row["name"]), _word(row["state"])) for row in rows]),
        findings=tuple(_finding(item) for item in findings[:FINDINGS]),
    )


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a mapping. Python's own would let the last of two win."""
    said = dict(pairs)
    if len(said) != len(pairs):
        raise _SaidTwice
    return said


def _finding(item: Any) -> str:
    return f"{_word(item['subject'])}: {_word(item['reason'])}"


def _word(value: Any) -> str:
    """A text of the pod's, cut, and without what could break a line or a terminal."""
    if not isinstance(value, str):
        raise TypeError("a text")
    cut = value if len(value) <= WORD else value[: WORD - 1] + "…"
    return "".join(letter if letter.isprintable() else "?" for letter in cut)
