"""The recorder of this worker process, and the functions that the patched model runner calls.

Off (`SPECDECODE_DISABLE=telemetry`), each returns before it does anything.  A worker's calls come from one thread.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import ParamSpec, TypeVar

from specdecode_engine import toggles
from specdecode_engine.telemetry import recorder
from specdecode_engine.telemetry.layout import SPAN_INDEX
from specdecode_engine.telemetry.recorder import Recorder

ENABLED = toggles.enabled("telemetry")
PROBE_EVERY = 5.0
"""Seconds between two runs of the probe."""

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _recorder() -> Recorder:
    """Made at the first real step, when the worker's device is settled."""
    import torch

    if not torch.cuda.is_available():
        return recorder.on_cpu()
    return Recorder(functools.partial(torch.cuda.Event, enable_timing=True))


@functools.cache
def _probe() -> "Probe":
    return Probe(_recorder())


def device_sample_every() -> int:
    """Each how many steps device spans are taken, for engine_info."""
    import torch

    return recorder.EVERY if torch.cuda.is_available() else 1


def begin_step(running: int, *, mixed: bool) -> None:
    """A step of `running` requests starts: its input preparation is timed until `prepared`."""
    if ENABLED:
        _probe().run_if_due()
        _recorder().begin_step(running, mixed=mixed)


def prepared() -> None:
    """The target's inputs and attention metadata are ready."""
    if ENABLED:
        _recorder().prepared()


def skip_step() -> None:
    """What follows is a dummy run."""
    if ENABLED:
        _recorder().skip_step()


def start(span: str) -> int | None:
    """Begin a device span that does not nest as a block; give the result to `end`."""
    return _recorder().start(span) if ENABLED else None


def end(slot: int | None) -> None:
    """End what `start` began."""
    if slot is not None:
        _recorder().ring.end(slot)


@contextmanager
def propose() -> Iterator[None]:
    """Round one propose call: its host time, its span on the stream, and the rebuild time within it, 0 if none."""
    if not ENABLED:
        yield
        return
    with _recorder().propose():
        yield


def drafter_span(run: Callable[P, T]) -> Callable[P, T]:
    """`run` is the drafter's work on the device: a graph's replay, or a forward."""

    @functools.wraps(run)
    def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
        if not ENABLED:
            return run(*args, **kwargs)
        with _recorder().device("drafter_gpu"):
            return run(*args, **kwargs)

    return spanned


def rebuild_span(build: Callable[P, T]) -> Callable[P, T]:
    """`build` makes the draft's attention metadata on the host."""

    @functools.wraps(build)
    def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
        if not ENABLED:
            return build(*args, **kwargs)
        before = perf_counter()
        built = build(*args, **kwargs)
        _recorder().rebuilt(perf_counter() - before)
        return built

    return spanned


def ship() -> bytes | None:
    """The end of a step: increments for its output, or None."""
    return _recorder().ship() if ENABLED else None


class Probe:
    """A fixed short workload, the same in every image: what moves it is the host or the device, not a patch."""

    def __init__(self, into: Recorder) -> None:
        import torch

        self._into = into
        self._due = 0.0
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._a = torch.ones(256, 256, device=device)
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


def device_name() -> str:
    """`cuda` or `cpu`, for engine_info."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
