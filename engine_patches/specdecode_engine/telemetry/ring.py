"""Device spans without waiting: pairs of events from a ring, recorded on the stream and read once they are done.

A span that is a CUDA graph's replay begins with an event inside the graph, which each replay records anew.  It is read
if the span is done before the graph can be replayed again.  If it isn't, the host is a step ahead of the device, so the
stream was busy at the launch and the ring's own event, recorded before it, was reached when the graph began.

An event is anything with `record()`, `query() -> bool` and `elapsed_time(end) -> float` (milliseconds), as CUDA events
are; `ClockEvent` is one on the host's clock, for a CPU, where work is done when the call returns.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Generic, Protocol, Self, TypeVar

from specdecode_engine.telemetry.layout import DROPPED

RING_FULL, LATE, UNPAIRED = (DROPPED.index(reason) for reason in ("ring_full", "late", "unpaired"))
CAPACITY = 64
"""Pairs in flight: the few spans of a sampled step, and of one before it that the device has not reached."""

PATIENCE = 256
"""Polls after which a pair that is not done is given up (`late`): a hung stream must not stop the rest."""


class Event(Protocol):
    def record(self) -> None: ...
    def query(self) -> bool: ...
    def elapsed_time(self, end: Self, /) -> float: ...


class ClockEvent:
    """An event on the host's clock."""

    def __init__(self) -> None:
        self._at = 0.0

    def record(self) -> None:
        self._at = perf_counter()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: "ClockEvent", /) -> float:
        return (end._at - self._at) * 1e3


E = TypeVar("E", bound=Event)


class Ring(Generic[E]):
    """Event pairs, made once.  `begin` and `end` bracket work on the current stream; `poll` reads what is done."""

    def __init__(
        self,
        make: Callable[[], E],
        *,
        observe: Callable[[int, int, float], None],
        drop: Callable[[int], None],
        capacity: int = CAPACITY,
    ) -> None:
        self._pairs = [(make(), make()) for _ in range(capacity)]
        self._span = [0] * capacity
        self._cell = [0] * capacity
        self._ended = [False] * capacity
        self._waited = [0] * capacity
        self._inside: list[E | None] = [None] * capacity
        self._observe, self._drop = observe, drop
        self._first = self._count = 0

    def begin(self, span: int, cell: int) -> int | None:
        """Record a start; the slot to give to `end`.  None, counted as ring_full, if all pairs are in flight."""
        if self._count == len(self._pairs):
            self._drop(RING_FULL)
            return None
        slot = (self._first + self._count) % len(self._pairs)
        self._count += 1
        self._span[slot], self._cell[slot] = span, cell
        self._ended[slot], self._waited[slot] = False, 0
        self._pairs[slot][0].record()
        return slot

    def end(self, slot: int | None) -> None:
        """Record the end of what `begin` gave; nothing for None."""
        if slot is not None:
            self._pairs[slot][1].record()
            self._ended[slot] = True

    def mark(self, slot: int | None, inside: E | None) -> None:
        """The span of `slot` begins with `inside`, an event of the graph that is replayed next; nothing for None.

        An older span that begins with the same event goes back to the ring's own: the replay takes it away.
        """
        if slot is not None and inside is not None:
            if inside in self._inside:
                self._inside[self._inside.index(inside)] = None
            self._inside[slot] = inside

    def poll(self) -> None:
        """Read the pairs that are done, oldest first; the others go back to the ring's own events.

        Called between steps, and before a graph of the last sampled one is replayed.  A pair begun and not ended then
        was left by an exception, and is counted as unpaired.
        """
        while self._count and self._settle(self._first):
            self._first = (self._first + 1) % len(self._pairs)
            self._count -= 1
        self._inside[:] = [None] * len(self._pairs)

    def _settle(self, slot: int) -> bool:
        """Count the pair, or give it up; False if it is to be asked again."""
        start, end = self._pairs[slot]
        if not self._ended[slot]:
            self._drop(UNPAIRED)
        elif end.query():
            self._observe(self._span[slot], self._cell[slot], (self._inside[slot] or start).elapsed_time(end) * 1e-3)
        elif self._waited[slot] >= PATIENCE:
            self._drop(LATE)
        else:
            self._waited[slot] += 1
            return False
        return True
