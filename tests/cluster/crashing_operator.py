"""An operator that dies after its first write: `python crashing_operator.py run`, with CRASH_RECORD naming a file.

Started again and again, it gets exactly one write further each time, so that every gap between two writes of a rollout
is a moment at which the operator was killed. Each write is told to CRASH_RECORD before the process ends.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from specdecode_operator.__main__ import main

RECORD = "CRASH_RECORD"
STATUS = 137
"""What a process has that was ended by SIGKILL."""


def die_after(action: str) -> None:
    """End the process as SIGKILL does: no handler, no flush, no goodbye to the API server."""
    with Path(os.environ[RECORD]).open("a") as record:
        record.write(f"{action}\n")
    os._exit(STATUS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], after_action=die_after))
