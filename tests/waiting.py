"""The only place where tests wait for what is real: a condition is asked for again until it holds or time is over.

A test that waits says in one sentence what it waits for. When it does not come, the failure carries that sentence and
the state of everything in the namespace, so that the log of a failed run is enough to understand it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

POLL_SECONDS = 0.3


class NotSeen(AssertionError):
    """What a test waited for did not come in time, or what must not happen happened."""


def await_that(
    sentence: str,
    check: Callable[[], Found | None],
    *,
    seconds: float = 180,
    state: Callable[[], str] = str,
    poll: float = POLL_SECONDS,
) -> Found:
    """Return the first true value of `check`; after `seconds` raise NotSeen with the sentence and the state.

    `check` may raise AssertionError to say what is still missing; the last such message is part of the failure.
    """
    deadline = time.monotonic() + seconds
    missing = ""
    while True:
        try:
            found = check()
            missing = "" if found else f"last seen: {found!r}"
        except AssertionError as error:
            found, missing = None, str(error)
        if found:
            return found
        if time.monotonic() > deadline:
            raise NotSeen(f"not seen within {seconds:.0f} s: {sentence}\n{missing}\n{state()}")
        time.sleep(poll)


def holds_for(
    sentence: str,
    check: Callable[[], bool],
    *,
    seconds: float,
    state: Callable[[], str] = str,
    poll: float = POLL_SECONDS,
) -> None:
    """Raise NotSeen if `check` is false at any look during `seconds`: for what must stay as it is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not check():
            raise NotSeen(f"did not stay true for {seconds:.0f} s: {sentence}\n{state()}")
        time.sleep(poll)
