"""`kubectl` and `helm` of the local cluster's version, as a person would call them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from specdecode_local import paths


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
        done = subprocess.run(
            [str(self.program), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KUBECONFIG": str(paths.KUBECONFIG)},
        )
        if done.returncode != 0:
            raise CommandFailed((self.program.name, *arguments), done.returncode, done.stderr.strip())
        return done.stdout
