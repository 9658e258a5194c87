"""Pure: which step yields how many tokens, and when.

A step of speculative decoding drafts K tokens and yields those accepted plus one. Here the accepted counts are spread
evenly (Bresenham's line), so that any number of steps has the asked mean to within one token: a test can compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

DEFAULT_ACCEPTANCE_LENGTH = 2.6


@dataclass(frozen=True)
class Step:
    """One step of one request."""

    drafted: int
    accepted: int
    tokens: int
    """Tokens sent to the client: accepted + 1, less what exceeds the request's limit."""
    due: float
    """Seconds after the request's start at which its last token is ready."""


def acceptance_length(asked: float, drafted: int, configured: float | None) -> float:
    """Mean tokens a step: the setting, else the speculative configuration's, else a plausible one; within 1..K+1."""
    wanted = asked or configured or DEFAULT_ACCEPTANCE_LENGTH
    return min(max(wanted, 1.0), drafted + 1.0)


def steps(*, tokens: int, drafted: int, length: float, tokens_per_second: float) -> Iterator[Step]:
    """The steps of a request of `tokens` tokens. `length` is the mean number of tokens a step, 1 to `drafted` + 1."""
    sent = 0
    index = 0
    while sent < tokens:
        accepted = math.floor((index + 1) * (length - 1) + 1e-9) - math.floor(index * (length - 1) + 1e-9)
        yielded = min(accepted + 1, tokens - sent)
        sent += yielded
        index += 1
        yield Step(drafted=drafted, accepted=accepted, tokens=yielded, due=sent / tokens_per_second)
