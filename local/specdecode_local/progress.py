"""Progress lines: what is being built or awaited, and for how long.

On a terminal the current step is one line that counts its seconds; in a pipe each step is a line when it begins to
take long and a line when it ends, so that a log stays readable.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

HEARTBEAT_SECONDS = 20.0
"""How often a pipe is told that a long step is still going."""

FRAME_SECONDS = 0.2


def elapsed(seconds: float) -> str:
    """Seconds as a person reads them: `0.4 s`, `12 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


class Step:
    """One thing that is awaited. `detail` may change while it runs, `outcome` replaces it at the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.detail = ""
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def line(self, mark: str) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{mark} {self.name}{detail} ({elapsed(self.seconds)})"


class Progress:
    """Prints steps to a stream; nested steps are not shown, the outermost speaks for them."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.terminal = self.stream.isatty()
        self.depth = 0

    def say(self, text: str) -> None:
        """A line of its own, outside any step."""
        print(text, file=self.stream, flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Shows `name` until the block ends, with a mark for success or failure."""
        step = Step(name)
        if self.depth:
            yield step
            return
        self.depth += 1
        finished = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, finished), daemon=True)
        ticker.start()
        mark = "✗"
        try:
            yield step
            mark = "✓"
        finally:
            self.depth -= 1
            finished.set()
            ticker.join()
            self._clear()
            self.say(step.line(mark))

    def _tick(self, step: Step, finished: threading.Event) -> None:
        period = FRAME_SECONDS if self.terminal else HEARTBEAT_SECONDS
        while not finished.wait(period):
            if self.terminal:
                # Longer than the terminal is wide, it would wrap and could not be wiped out again.
                line = step.line("…")[: shutil.get_terminal_size().columns - 1]
                print(f"\r\x1b[2K{line}", end="", file=self.stream, flush=True)
            else:
                self.say(step.line("…"))

    def _clear(self) -> None:
        if self.terminal:
            print("\r\x1b[2K", end="", file=self.stream, flush=True)
