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


def all_slots(count: int) -> str:
    """As what holds them is told of."""
    return "the slot" if count == 1 else f"all {count} slots"


def all_serve(count: int) -> str:
    """As the beginning of a sentence."""
    return "The slot serves" if count == 1 else f"All {count} slots serve"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "…", "!")) else f"{text}."
