"""`kubectl` and `helm` of the local cluster's version, as a person would call them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import paths

LONGEST_SECONDS = 600.0
"""One that takes longer hangs, and nobody would be told of which."""


@dataclass(eq=False)
class CommandFailed(AssertionError):
    """A command that a person would type ended with an error; the text is what it printed."""

    command: tuple[str, ...]
    status: int
    printed: str

    def __str__(self) -> str:
        return f"{' '.join(self.command)} ended with status {self.status}: {self.printed}"


@dataclass(frozen=True)
class Command:
    """`kubectl` or `helm` of the local cluster's version, as a person would call it."""

    program: Path

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what it printed on standard output; raise CommandFailed with its words if it fails."""
        try:
            done = subprocess.run(
                [str(self.program), *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_SECONDS,
                env={**os.environ, "KUBECONFIG": str(paths.KUBECONFIG)},
            )
        except subprocess.TimeoutExpired as late:
            words = f"not ended after {late.timeout:.0f} s"
            raise CommandFailed((self.program.name, *arguments), -1, words) from late
        if done.returncode != 0:
            raise CommandFailed((self.program.name, *arguments), done.returncode, done.stderr.strip())
        return done.stdout
