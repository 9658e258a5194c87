"""An operator that dies after its first write: `python crashing_operator.py run`, with CRASH_RECORD naming a file.

Begun again and again, it gets exactly one write further each time, so that every gap between two writes of a rollout is
a moment at which the operator was killed. Each write is told to CRASH_RECORD before the process ends.

A life is a fork of a process that has imported the operator and done nothing else: it knows as little as a new one
does, without the seconds that importing takes. The first life that ends otherwise ends the program, with its status.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from specdecode_operator.__main__ import main

RECORD = "CRASH_RECORD"
STATUS = 137
"""What a process has that was ended by SIGKILL."""

MOST_DEATHS = 120
PR_SET_PDEATHSIG = 1


def die_after(action: str) -> None:
    """End the process as SIGKILL does: no handler, no flush, no goodbye to the API server."""
    with Path(os.environ[RECORD]).open("a") as record:
        record.write(f"{action}\n")
    os._exit(STATUS)


def live(argv: list[str]) -> int:
    """One life, which ends with this program's own at the latest; its status."""
    life = os.fork()
    if life == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os._exit(main(argv, after_action=die_after))
    return os.waitstatus_to_exitcode(os.waitpid(life, 0)[1])


def live_again(argv: list[str]) -> int:
    """Lives until one ends without a write, or too many did with one; the last one's status."""
    for _ in range(MOST_DEATHS):
        status = live(argv)
        if status != STATUS:
            return status
    return STATUS


if __name__ == "__main__":
    sys.exit(live_again(sys.argv[1:]))
