"""What a condition says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Said:
    """A condition's status, reason and message."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "…", "!")) else f"{text}."
