"""What the hooks in the model runner call in a sampled step.  One recorder a worker process.

A step's labels are fixed when it begins, before anything of it is known to be slow.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from specdecode_engine.telemetry import layout
from specdecode_engine.telemetry.increments import Increments
from specdecode_engine.telemetry.ring import ClockEvent, Event, Ring

GRAPH_START = "specdecode_start"
"""Attribute of a CUDA graph: the event recorded inside it, before its work.  So it lives as long as the graph."""

P = ParamSpec("P")
T = TypeVar("T")


class Recorder:
    """Spans of the current step, counted into the cell of its batch."""

    def __init__(self, make_event: Callable[[], Event], ship_every: float | None = None) -> None:
        self.increments = Increments(ship_every)
        self.ring: Ring[Any] = Ring(make_event, observe=self.increments.observe, drop=self.increments.drop)
        self._cell = 0
        self._began = 0.0
        self._rebuilding = 0.0
        self._proposes = False
        self._forward: int | None = None

    def begin_step(self, running: int, *, mixed: bool) -> None:
        """A step of `running` requests starts; `mixed` if any of them still prefills."""
        self._cell = layout.cell(running, mixed=mixed)
        self._proposes = False
        self._began = perf_counter()

    def prepared(self) -> None:
        """The target's inputs are ready: the time since `begin_step` is input preparation."""
        self._observe("input_prep_host", perf_counter() - self._began)

    def forward_begins(self) -> None:
        """The target's forward is launched."""
        self._forward = self._start("target_forward_gpu")

    def forward_ends(self) -> None:
        """It has been launched."""
        self.ring.end(self._forward)

    def proposing(self, propose: Callable[P, T]) -> Callable[P, T]:
        """One propose call: its host time, its span on the stream, and the rebuild time within it, 0 if none.

        A call left by an exception counts nothing on the host.
        """

        def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
            self._rebuilding, self._proposes = 0.0, True
            slot = self._start("propose_gpu")
            start = perf_counter()
            proposed = propose(*args, **kwargs)
            self._observe("propose_host", perf_counter() - start)
            self.ring.end(slot)
            self._observe("draft_rebuild_host", self._rebuilding)
            self._proposes = False
            return proposed

        return spanned

    def drafting(self, run: Callable[P, T]) -> Callable[P, T]:
        """The drafter's work on the device, launched kernel by kernel."""

        def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
            slot = self._start("drafter_gpu")
            ran = run(*args, **kwargs)
            self.ring.end(slot)
            return ran

        return spanned

    def rebuilding(self, build: Callable[P, T]) -> Callable[P, T]:
        """The draft's attention metadata is made; a propose that makes it more than once counts the sum."""

        def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
            start = perf_counter()
            built = build(*args, **kwargs)
            self._rebuilding += perf_counter() - start
            return built

        return spanned

    def replay(self, graph: Any) -> None:
        """Replay a CUDA graph: the drafter's within a propose call, else the target's, whose span has begun.

        Its span begins with the event inside the graph.  A device that waits for the host reaches one before the replay
        while the host still launches, so that the launch would be in the span.
        """
        slot = self._start("drafter_gpu") if self._proposes else self._forward
        self.ring.mark(slot, getattr(graph, GRAPH_START, None))
        graph.replay()
        if self._proposes:
            self.ring.end(slot)

    def ship(self) -> bytes | None:
        """The step is over: increments to send with its output, or None."""
        return self.increments.drain(perf_counter())

    def _start(self, span: str) -> int | None:
        return self.ring.begin(layout.SPAN_INDEX[span], self._cell)

    def _observe(self, span: str, seconds: float) -> None:
        self.increments.observe(layout.SPAN_INDEX[span], self._cell, seconds)


def on_cpu() -> Recorder:
    """A recorder whose device is the host."""
    return Recorder(ClockEvent)
