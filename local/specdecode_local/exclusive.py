"""One `up` or `down` at a time on this machine."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from specdecode_local.errors import LocalError
from specdecode_local.progress import Progress

NAME = "\0specdecode-local"
"""A socket in the kernel's own name space: it goes with its process, and leaves no file behind."""

POLL_SECONDS = 0.5
SECONDS = 3600.0


@contextmanager
def exclusive(progress: Progress, name: str = NAME, seconds: float = SECONDS) -> Iterator[None]:
    """Waits for any other `up` or `down` to end. Raises LocalError after `seconds`."""
    with socket.socket(socket.AF_UNIX) as lock:
        if not _taken(lock, name):
            yield
            return
        with progress.step("another `up` or `down` is at work"):
            deadline = time.monotonic() + seconds
            while _taken(lock, name):
                if time.monotonic() > deadline:
                    raise LocalError("another `up` or `down` does not end", remedy="look for it with `ps`, end it")
                time.sleep(POLL_SECONDS)
        yield


def _taken(lock: socket.socket, name: str) -> bool:
    try:
        lock.bind(name)
    except OSError:
        return True
    return False
