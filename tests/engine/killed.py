"""Applies a series again and again, killed with SIGKILL at another place each time."""

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import releases

from specdecode_engine import overlay
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest


def apply_killed_at_every(nth: int, root: Path, manifest: Manifest) -> int:
    """Kill an apply at every `nth` line of the overlay that it runs, each in a copy of the stock tree under `root`.

    A half tree must never verify, and the next run must complete it.  Returns how many were killed.
    """
    stock, whole = copy(root, "stock"), copy(root, "whole")
    overlay.apply(whole, manifest)
    before, after = releases.content(stock), releases.content(whole)
    lines = in_a_child(lambda: apply_killed(copy(root, "counted"), manifest, at=None))
    assert isinstance(lines, int)
    kills = range(1, lines + 1, nth)
    half = sum(_killed_at(at, copy(root, f"killed-{at}"), manifest, before, after) for at in kills)
    assert half > 0, "no kill hit the tree between two files: the test proves nothing"
    return len(kills)


def _killed_at(at: int, root: Path, manifest: Manifest, before: dict[str, bytes], after: dict[str, bytes]) -> bool:
    """One kill, and the run after it.  Whether it left a half tree in between."""
    assert in_a_child(lambda: apply_killed(root, manifest, at)) is None
    now = {path: (root / path).read_bytes() for path in before}
    complete = now == after
    assert complete or overlay.verify(root, manifest) != [], f"killed at line {at}: a half tree verifies"
    with contextlib.suppress(Refused):  # "already applied", if it had been done
        overlay.apply(root, manifest)
    assert releases.content(root) == after, f"killed at line {at}: the next run did not complete"
    shutil.rmtree(root)
    return not complete and now != before


def copy(root: Path, name: str) -> Path:
    """A tree of its own beside `root`."""
    return Path(shutil.copytree(root, root.with_name(name)))


def apply_killed(root: Path, manifest: Manifest, at: int | None) -> int:
    """Apply; SIGKILL this process before it executes line number `at` (counted as they run) of the overlay."""
    ran = 0

    def on_line(frame: FrameType, event: str, _: object) -> Any:
        nonlocal ran
        if frame.f_code.co_filename != overlay.__file__:
            return None
        ran += event == "line"
        if ran == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    sys.settrace(on_line)
    overlay.apply(root, manifest)
    sys.settrace(None)
    return ran


def in_a_child(run: Callable[[], object], *, user: int | None = None) -> object:
    """What `run` returns in a forked process, as JSON; None if that process was killed."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if user is not None and os.getuid() == 0:
                os.setuid(user)
            os.write(write, json.dumps(run()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None
