"""Starts the stand-in with the engine's arguments: `python3 -m engine_standin MODEL --port 8000 ...`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def leave(_: int, __: FrameType | None) -> None:
    """Ends at once: nothing has been served yet."""
    os._exit(0)


# Before the imports that take time: as process 1 of a container a signal without a handler is not delivered at all.
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, leave)

if __name__ == "__main__":
    from engine_standin.run import main

    sys.exit(main())
