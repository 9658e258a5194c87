"""What the hooks in the model runner call.  One recorder a worker process.

Host spans are taken on every step, device spans on every `every`-th (both arms of a comparison must use the same).
A step's labels are fixed when it begins, before anything of it is known to be slow.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from specdecode_engine.telemetry import layout
from specdecode_engine.telemetry.increments import Increments
from specdecode_engine.telemetry.ring import ClockEvent, Event, Ring

EVERY = 8
"""Device spans are sampled each this many steps: two event records cost microseconds of host time."""


class Recorder:
    """Spans of the current step, counted into the cell of its batch."""

    def __init__(self, make_event: Callable[[], Event], *, every: int = EVERY) -> None:
        self.increments = Increments()
        self.ring: Ring[Any] = Ring(make_event, observe=self.increments.observe, drop=self.increments.drop)
        self._every = every
        self._step = 0
        self._cell = 0
        self._live = False

    def begin_step(self, running: int, *, mixed: bool) -> None:
        """A step of `running` requests starts; `mixed` if any of them still prefills."""
        self.ring.poll()
        self._cell = layout.cell(running, mixed=mixed)
        self._step += 1
        self._live = True

    def skip_step(self) -> None:
        """What follows is no step of a user's (a profiling or capture run): count nothing."""
        self._live = False

    @contextmanager
    def host(self, span: str) -> Iterator[None]:
        """Time a block on the host's clock.  A block left by an exception counts nothing."""
        if not self._live:
            yield
            return
        start = perf_counter()
        yield
        self.increments.observe(layout.SPAN_INDEX[span], self._cell, perf_counter() - start)

    @contextmanager
    def device(self, span: str) -> Iterator[None]:
        """Bracket a block with device events, on every `every`-th step."""
        if not self._live or self._step % self._every:
            yield
            return
        slot = self.ring.begin(layout.SPAN_INDEX[span], self._cell)
        yield
        self.ring.end(slot)

    def ship(self) -> bytes | None:
        """Increments to send with this step's output, or None."""
        return self.increments.drain(perf_counter())


def on_cpu(*, every: int = 1) -> Recorder:
    """A recorder whose device is the host."""
    return Recorder(ClockEvent, every=every)
