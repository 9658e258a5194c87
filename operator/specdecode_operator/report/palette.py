"""Colours: the only ones in the report, for light paper and for dark screens; print takes the light ones.

Stable and candidate keep apart for every kind of colour vision (blue and vermilion of Okabe and Ito 2008), and differ
in their lines as well. No colour says anything that a word doesn't say beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "paper": "#ffffff",
    "panel": "#f6f7f9",
    "ink": "#14181f",
    "quiet": "#4d5766",
    "line": "#cdd3dc",
    "axis": "#737e8e",
    "stable": "#0b6aad",
    "candidate": "#b34a00",
    "harm": "#b3261e",
    "harm-fill": "#fbe4e2",
    "pass": "#17692f",
    "fail": "#b3261e",
    "inconclusive": "#8a5300",
    "invalid": "#6b3fa0",
    "person": "#35506e",
}

DARK: Final[Mapping[str, str]] = {
    "paper": "#12151a",
    "panel": "#1b2027",
    "ink": "#eceff4",
    "quiet": "#aeb8c6",
    "line": "#343c48",
    "axis": "#8793a3",
    "stable": "#6cb8f0",
    "candidate": "#f39a5b",
    "harm": "#ff8f86",
    "harm-fill": "#3a2222",
    "pass": "#6fd08c",
    "fail": "#ff8f86",
    "inconclusive": "#f0b95c",
    "invalid": "#c3a2f2",
    "person": "#a9c4e0",
}

TEXT: Final = (
    "ink", "quiet", "stable", "candidate", "harm", "pass", "fail", "inconclusive", "invalid", "person",
)  # fmt: skip
"""Colours that words are written in, on paper and on panels."""

SHAPES: Final = ("axis",)
"""Colours of lines and marks that must be told from what they lie on."""
