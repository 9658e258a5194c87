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
        self._began = 0.0
        self._rebuilding = 0.0

    def begin_step(self, running: int, *, mixed: bool) -> None:
        """A step of `running` requests starts; `mixed` if any of them still prefills."""
        self.ring.poll()
        self._cell = layout.cell(running, mixed=mixed)
        self._step += 1
        self._live = True
        self._began = perf_counter()

    def prepared(self) -> None:
        """The target's inputs are ready: the time since `begin_step` is input preparation."""
        if self._live:
            self.increments.observe(layout.SPAN_INDEX["input_prep_host"], self._cell, perf_counter() - self._began)

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

    def start(self, span: str) -> int | None:
        """Begin a device span on every `every`-th step; None on the others."""
        if not self._live or self._step % self._every:
            return None
        return self.ring.begin(layout.SPAN_INDEX[span], self._cell)

    @contextmanager
    def device(self, span: str) -> Iterator[None]:
        """Bracket a block with device events, on every `every`-th step."""
        slot = self.start(span)
        yield
        self.ring.end(slot)

    @contextmanager
    def propose(self) -> Iterator[None]:
        """Round one propose call."""
        self._rebuilding = 0.0
        with self.host("propose_host"), self.device("propose_gpu"):
            yield
        if self._live:
            self.increments.observe(layout.SPAN_INDEX["draft_rebuild_host"], self._cell, self._rebuilding)

    def rebuilt(self, seconds: float) -> None:
        """Draft metadata was built; a propose that builds more than once counts the sum."""
        self._rebuilding += seconds

    def ship(self) -> bytes | None:
        """The step is over: increments to send with its output, or None."""
        self._live = False
        return self.increments.drain(perf_counter())


def on_cpu(*, every: int = 1) -> Recorder:
    """A recorder whose device is the host."""
    return Recorder(ClockEvent, every=every)
