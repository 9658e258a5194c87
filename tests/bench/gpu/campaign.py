"""Starts every arm's engine on the one device, visits them in turn, keeps what they say, and ends in time.

All engines of a round live side by side and only the visited one works.  So arms follow each other within seconds, and
a switch costs nothing; a new round starts them all again.
"""

import json
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bench.gpu import arms, raw
from bench.gpu.arms import Arm, Visit

SLOWER = 2.0
"""A visit is begun while there is time for one this many times as long as the longest so far."""

ENDING = 10.0
"""Seconds at the end in which the engines go."""

SAID = 2000
"""Characters of a failed engine's log that are kept."""


class Ended(Exception):
    """An engine that is gone, or did not answer in time."""


@dataclass(frozen=True)
class Clock:
    """The time that a campaign may take."""

    begun: float
    seconds: float
    now: Callable[[], float] = time.monotonic

    def elapsed(self) -> float:
        return self.now() - self.begun

    def left(self) -> float:
        return max(0.0, self.seconds - ENDING - self.elapsed())


@dataclass(frozen=True)
class Process:
    """An engine's process, and its log."""

    arm: Arm
    process: subprocess.Popen[str]
    log: Path

    def ask(self, visit: Visit, within: float) -> list[dict[str, Any]]:
        """The requests of a visit.  Raises Ended."""
        assert self.process.stdin is not None, "it was started with a pipe"
        try:
            print(json.dumps(asdict(visit)), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise Ended(f"{self.arm.name}: it ended") from None
        return list(self.answer(within))

    def answer(self, within: float) -> Any:
        """The next line that it says, within so many seconds.  Raises Ended."""
        assert self.process.stdout is not None, "it was started with a pipe"
        readable, _, _ = select.select([self.process.stdout], [], [], within)
        if not readable:
            raise Ended(f"{self.arm.name}: no answer within {within:.0f} s")
        if not (line := self.process.stdout.readline()):
            raise Ended(f"{self.arm.name}: it ended")
        return json.loads(line)

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-SAID:]


Start = Callable[[Arm], AbstractContextManager[Process]]


@contextmanager
def started(arm: Arm, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Process]:
    """An engine that is gone when the block ends.  It runs in the folder of its log."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=log.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield Process(arm, process, log)
    finally:
        process.kill()
        process.communicate()


@dataclass
class Round:
    """One start of every arm, and the visits that follow while there is time."""

    head: Mapping[str, Any]
    """First line of the raw file."""
    file: Path
    clock: Clock
    longest: float = field(default=0.0, init=False)
    """Seconds of the longest visit so far."""

    def run(self, wanted: Sequence[Arm], start: Start, *, at_once: int, sweeps: int) -> int:
        """Start the engines, `at_once` beside each other, and visit those that came up in at most so many sweeps.

        The number of visits.
        """
        raw.add(self.file, self.head)
        with ExitStack() as engines:
            up: dict[str, Process] = {}
            for first in range(0, len(wanted), at_once):
                beside = [engines.enter_context(start(arm)) for arm in wanted[first : first + at_once]]
                up |= {engine.arm.name: engine for engine in beside if self._came_up(engine)}
            return self._visit_all(up, sweeps)

    def _came_up(self, engine: Process) -> bool:
        try:
            ready = engine.answer(self.clock.left())
        except Ended as ended:
            self._failed(engine, ended)
            return False
        raw.add(self.file, {"ready": engine.arm.name, **ready})
        self._say(f"{engine.arm.name}: ready after {ready['seconds']:.0f} s")
        return True

    def _visit_all(self, up: Mapping[str, Process], sweeps: int) -> int:
        done = 0
        order = arms.visits(list(up), seed=self.head["seed"], round=self.head["round"])
        for visit in islice(order, 2 * len(up) * sweeps):
            if self.clock.left() <= SLOWER * self.longest:
                break
            try:
                self._visit(visit, up[visit.arm])
            except Ended as ended:
                self._failed(up[visit.arm], ended)
                break
            done += 1
        return done

    def _visit(self, visit: Visit, engine: Process) -> None:
        begun = self.clock.elapsed()
        requests = engine.ask(visit, self.clock.left())
        raw.add(self.file, {"visit": asdict(visit), "requests": requests})
        self.longest = max(self.longest, self.clock.elapsed() - begun)
        first = requests[0]
        step = sum(first["steps"]) / len(first["steps"])
        self._say(
            f"sweep {visit.sweep}.{visit.leg} {visit.arm}: {first['cached']} tokens cached, "
            f"first token {1e3 * first['first']:.1f} ms, step {1e3 * step:.3f} ms"
        )

    def _failed(self, engine: Process, ended: Ended) -> None:
        raw.add(self.file, {"failed": engine.arm.name, "said": engine.said()})
        self._say(f"{ended}; its log ends with\n{engine.said()}")

    def _say(self, text: str) -> None:
        print(f"{self.clock.elapsed():5.0f} s  {text}", flush=True)
