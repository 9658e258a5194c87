"""The functions that the patched model runner calls, and the recorder of this worker process behind them.

In a step that isn't sampled a hook is one look at `step.sampled`: no clock, no event, nothing allocated.  Off
(`SPECDECODE_DISABLE=telemetry`), no step is sampled.  A worker's calls come from one thread.
"""

import functools
from collections.abc import Callable
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

from specdecode_engine import toggles
from specdecode_engine.telemetry import ranks, recorder, sampling
from specdecode_engine.telemetry.increments import SHIP_EVERY_ON_DEVICE
from specdecode_engine.telemetry.layout import SPAN_INDEX
from specdecode_engine.telemetry.recorder import Recorder

ENABLED = toggles.enabled("telemetry")
PROBE_EVERY = 5.0
"""Seconds between two runs of the probe, at least: it runs before a sampled step."""

P = ParamSpec("P")
T = TypeVar("T")

step = sampling.Step()
"""Of this process.  The hooks that have nothing to return ask `step.sampled` where they stand, to save the call."""


@functools.cache
def taken() -> Recorder:
    """The recorder, made in the first step, when the worker's device is settled."""
    import torch

    step.every = sample_every()
    if device_name() == "cpu":
        return recorder.on_cpu()
    return Recorder(functools.partial(torch.cuda.Event, enable_timing=True), SHIP_EVERY_ON_DEVICE)


@functools.cache
def _probe() -> "Probe":
    return Probe(taken())


def device_name() -> str:
    """`cuda` or `cpu`, for engine_info."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def sample_every() -> int:
    """Each how many steps one is sampled, for engine_info.  On a CPU each is: it is a hundred times as long there."""
    return sampling.EVERY if device_name() == "cuda" else 1


def begin_step(running: int, *, mixed: bool) -> None:
    """A step of `running` requests starts: its input preparation is timed until `prepared`."""
    if ENABLED and step.next() and ranks.reports():
        taken().ring.poll()
        if step.turn == sampling.SAMPLED:
            _probe().run_if_due()
            taken().begin_step(running, mixed=mixed)
            step.sampled = True


def skip_step() -> None:
    """What follows is a dummy run: no step of a user's.  It may replay the graphs of the step before."""
    step.sampled = False
    if step.turn == sampling.SAMPLED and ranks.reports():
        taken().ring.poll()


def proposing(propose: Callable[P, T]) -> Callable[P, T]:
    """The drafter's propose call."""
    return taken().proposing(propose) if step.sampled else propose


def drafting(run: Callable[P, T]) -> Callable[P, T]:
    """The drafter's work on the device, if it is no graph's replay."""
    return taken().drafting(run) if step.sampled else run


def rebuilding(build: Callable[P, T]) -> Callable[P, T]:
    """What makes the draft's attention metadata on the host."""
    return taken().rebuilding(build) if step.sampled else build


def graph_start(graph: Any) -> None:
    """The capture of `graph` has begun: record the event with which the spans of its replays begin.

    It becomes a node of the graph, so that a replay pays for it on the device alone.
    """
    if ENABLED and device_name() == "cuda" and ranks.reports():
        import torch

        event = torch.cuda.Event(enable_timing=True, external=True)
        event.record()
        setattr(graph, recorder.GRAPH_START, event)


def ship() -> bytes | None:
    """The end of a sampled step: increments for its output, or None."""
    step.sampled = False
    return taken().ship()


class Probe:
    """A fixed short workload, the same in every image: what moves it is the host or the device, not a patch."""

    def __init__(self, into: Recorder) -> None:
        import torch

        self._into = into
        self._due = 0.0
        self._a = torch.ones(256, 256, device=device_name())
        self._out = torch.empty_like(self._a)

    def run_if_due(self) -> None:
        """Run it if PROBE_EVERY seconds have passed."""
        import torch

        now = perf_counter()
        if now < self._due:
            return
        self._due = now + PROBE_EVERY
        sum(range(2000))
        self._into.increments.observe(SPAN_INDEX["probe_host"], 0, perf_counter() - now)
        slot = self._into.ring.begin(SPAN_INDEX["probe_device"], 0)
        torch.mm(self._a, self._a, out=self._out)
        self._into.ring.end(slot)
