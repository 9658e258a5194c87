"""What an image is made of, read from its Containerfile: the one place that says which files go in.

The COPY and ADD lines name the inputs, so nothing else has to list them, and the hash of an image changes exactly when
something in it can. The same files, with modes that do not depend on the checkout's umask, are laid into the folder
that buildah is given as its context.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from specdecode_local.errors import LocalError

MADE = "made/"
"""Prefix of the paths in a Containerfile that no commit holds: a program or a root file system built beforehand."""

IGNORED_FOLDERS = frozenset({"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"})
IGNORED_SUFFIXES = (".pyc", ".egg-info", ".swp", "~")

FORM = 1
"""Raised when the way images are built changes, so that all are built anew."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Containerfile, continuation lines joined."""

    name: str
    rest: str


@dataclass(frozen=True)
class Sources:
    """What a Containerfile takes from its context."""

    files: tuple[str, ...]
    """Paths or globs in the repository."""
    made: tuple[str, ...]
    """Names under `made/`."""
    arguments: frozenset[str]
    """Every build argument it declares."""


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions in order; comments and empty lines are left out, also inside a continued line."""
    pending = ""
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        pending += line.removesuffix("\\").rstrip() + " "
        if not line.endswith("\\"):
            name, _, rest = pending.strip().partition(" ")
            yield Instruction(name.upper(), rest.strip())
            pending = ""


def sources(text: str, arguments: Mapping[str, str]) -> Sources:
    """The context paths of all COPY and ADD lines, build arguments filled in.

    Raises LocalError for an argument that has neither a value nor a default.
    """
    values: dict[str, str] = {}
    declared: set[str] = set()
    files: list[str] = []
    made: list[str] = []
    for instruction in instructions(text):
        if instruction.name == "ARG":
            name, _, default = instruction.rest.partition("=")
            declared.add(name)
            values[name] = arguments.get(name) or default.strip("\"'") or values.get(name, "")
        elif instruction.name in ("COPY", "ADD"):
            for path in _copied(instruction.rest):
                filled = _fill(path, values)
                if filled.startswith(MADE):
                    made.append(filled.removeprefix(MADE))
                else:
                    files.append(filled)
    return Sources(tuple(files), tuple(made), frozenset(declared))


def _copied(rest: str) -> list[str]:
    """The source paths of a COPY or ADD; none when they come from another stage."""
    words = rest.split()
    flags = [word for word in words if word.startswith("--")]
    if any(flag.startswith("--from=") for flag in flags):
        return []
    operands = " ".join(word for word in words if not word.startswith("--"))
    parts = json.loads(operands) if operands.startswith("[") else operands.split()
    return [str(part) for part in parts[:-1]]


def _fill(path: str, values: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        if not values.get(name):
            raise LocalError(
                f"COPY {path}: the build argument {name} has no value",
                remedy=f"give {name} a default in the Containerfile, or a value in specdecode_local/images.py",
            )
        return values[name]

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, path)


def resolve(pattern: str, root: Path) -> list[Path]:
    """All files that a COPY source stands for, sorted; folders stand for everything below them.

    Raises LocalError when there is none, as the build would, but before anything is built.
    """
    matches = [root / pattern] if (root / pattern).exists() else sorted(root.glob(pattern.lstrip("/")))
    found = [file for match in matches for file in _below(match)]
    if not found:
        raise LocalError(
            f"COPY {pattern}: nothing in {root} has that path", remedy="correct the path in the Containerfile"
        )
    return sorted(set(found))


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir() or path.is_symlink():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not _ignored(name))
        for name in sorted(names):
            if not _ignored(name):
                yield Path(folder) / name


def _ignored(name: str) -> bool:
    return name in IGNORED_FOLDERS or name.endswith(IGNORED_SUFFIXES)


def files_of(taken: Sources, root: Path) -> list[Path]:
    """Every file of the context, sorted, each once."""
    return sorted({file for pattern in taken.files for file in resolve(pattern, root)})


def fingerprint(file: Path) -> list[str]:
    """What of a file ends up in an image: its kind, whether it can be run, its content."""
    if file.is_symlink():
        return ["link", os.readlink(file)]
    kind = "program" if file.stat().st_mode & stat.S_IXUSR else "file"
    with file.open("rb") as handle:
        return [kind, hashlib.file_digest(handle, "sha256").hexdigest()]


def input_hash(
    containerfile: str,
    *,
    arguments: Mapping[str, str],
    files: list[Path],
    root: Path,
    made: Mapping[str, str],
    base: str,
) -> str:
    """What decides whether an image has to be built anew, as 64 hex digits.

    `made` maps each name under `made/` to what stands for its content; `base` is the base image's own hash, or empty.
    """
    content = {
        "form": FORM,
        "containerfile": containerfile,
        "arguments": dict(arguments),
        "files": {str(file.relative_to(root)): fingerprint(file) for file in files},
        "made": dict(made),
        "base": base,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def stage(files: list[Path], root: Path, context: Path) -> None:
    """Lays the files into an empty context folder, with modes that are the same on every machine."""
    for file in files:
        target = context / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target, follow_symlinks=False)
        if not file.is_symlink():
            target.chmod(0o755 if file.stat().st_mode & stat.S_IXUSR else 0o644)
    for folder, _, _ in os.walk(context):
        Path(folder).chmod(0o755)
