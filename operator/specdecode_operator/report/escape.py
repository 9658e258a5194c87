"""Text of strangers made harmless for a page."""

from __future__ import annotations

import unicodedata
from typing import Any, Final

from markupsafe import Markup

REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
_SPACES: Final = frozenset("\t\n")


def clean(text: object) -> str:
    """Text without what a reader can't see: controls, which HTML forbids, and what turns its direction round, so that
    a name can't pose as another. Each is replaced, not dropped: that something was there shows."""
    return "".join(REPLACED if _unseen(letter) else letter for letter in str(text))


def finalized(value: Any) -> Any:
    """What a template prints: markup of ours as it is, all else cleaned; to be escaped after that."""
    return value if isinstance(value, Markup) else clean("" if value is None else value)


def _unseen(letter: str) -> bool:
    """Controls, formatting characters, lone surrogates, and what no standard has given a meaning."""
    return letter not in _SPACES and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Cn")
