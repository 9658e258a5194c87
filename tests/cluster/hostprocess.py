"""Programs that a test starts on this machine beside the cluster's own, and ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS_TO_LEAVE = 15


@dataclass(frozen=True)
class HostProcess:
    """A program that runs, and what it has said."""

    process: subprocess.Popen[bytes]
    log: Path

    def ended(self) -> bool:
        return self.process.poll() is not None

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]


@contextmanager
def running(argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[HostProcess]:
    """The program for the length of the block; its output goes to `log`."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        )
    try:
        yield HostProcess(process, log)
    finally:
        process.terminate()
        try:
            process.wait(timeout=SECONDS_TO_LEAVE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
