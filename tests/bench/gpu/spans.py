"""How telemetry's device spans agree with the kernels within them: events beside the device's clock, no profiler.

    PYTHONPATH=<patched site folder>:tests python3 -m bench.gpu.spans --method dspark --out OUT/spans.json.gz
    PYTHONPATH=tests python3 -m bench.gpu.spans --read OUT/spans.json.gz

A kernel of one thread that writes down the device's time is the first and the last of what a span brackets: in each
CUDA graph the node after the event that begins the graph, and the graph's last; in propose the kernel launched before
the first of its own.  From the first to the last of these clocks is what the kernels take, but for the few microseconds
of the clocks themselves, and telemetry's span has to be as long.  A span over an empty graph shows what the bracket
adds: the way from an event to a kernel and back.

Requests take turns between regimes.  Where the host is slower than the device, a span that begins outside a graph has
the wait for its first launch in it; `queued` shows it without, since the device sleeps before each span until the host
has launched it.  At the end PyTorch's profiler watches, to show what it moves.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench.gpu import arms, engine, models, raw, recording
from bench.gpu.engine import Setup
from bench.gpu.raw import FORMAT
from bench.gpu.report import table

FREE, QUEUED, PROFILED, EMPTY = "free", "queued", "profiled", "empty graph"
"""Regimes: as it is served; with the device behind the host; under the profiler; no work between the clocks."""

TARGET, DRAFTER, PROPOSE = "target_forward_gpu", "drafter_gpu", "propose_gpu"
"""Telemetry's spans that are compared, of decode steps."""

FIRST_OF_PROPOSE = {"0.33.0": "_prepare_dflash_inputs_kernel"}
"""Release -> the Triton kernel with which propose begins.  0.30.0 begins with PyTorch's operators: no propose there."""

TOKENS = 1024
"""Tokens of each answer, and more than its steps."""

PROFILED_TOKENS = 384
"""The same under the profiler, whose trace takes its time to be read."""

SAMPLED_EVERY = 7
"""Each how many steps telemetry samples here, for more samples in the time."""

CELLS = 256
"""Clocks: two for each graph ever captured, and propose's."""

OF_PROPOSE = 0
"""The cell of the clock before propose's first kernel; those of the graphs follow."""

EMPTY_REPLAYS = 200

READS = 256
"""Reads of a clock in a row that show its resolution."""

SLEEP = 2_000_000
"""Cycles of the device, about a millisecond: longer than the host takes to launch a span."""

WITHIN = 5.0
"""Microseconds by which a span may differ from its kernels."""


# --- pure -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """One span in one regime, by the event that it began with; all in microseconds."""

    span: str
    regime: str
    start: str
    """`graph`: the event inside it; `ring`: the ring's own."""
    samples: int
    event: float
    """Median by events."""
    clock: float
    """Median by the device's clock."""
    apart: tuple[float, float, float]
    """5%, 50% and 95% quantiles of events less clock."""
    most: float
    """The largest difference, whichever is longer."""
    within: float
    """Part of the samples that differ by WITHIN at most."""


def agreements(requests: Sequence[Mapping[str, Any]]) -> list[Agreement]:
    """All spans of all regimes, in the order in which they came."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for request in requests:
        for span in request["spans"]:
            key = span["span"], request["regime"], span["start"]
            found.setdefault(key, []).append((span["event"], span["clock"]))
    return [_agreement(*key, 1e6 * np.asarray(pairs)) for key, pairs in found.items()]


def _agreement(span: str, regime: str, start: str, pairs: np.ndarray) -> Agreement:
    """From (by events, by clock); shape (samples, 2)."""
    apart = pairs[:, 0] - pairs[:, 1]
    low, middle, high = map(float, np.quantile(apart, [0.05, 0.5, 0.95]))
    event, clock = map(float, np.median(pairs, axis=0))
    sizes = np.abs(apart)
    within = float(np.mean(sizes <= WITHIN))
    return Agreement(span, regime, start, len(pairs), event, clock, (low, middle, high), float(sizes.max()), within)


def tick(times: Sequence[float]) -> float:
    """The resolution of a clock that was read often: the least by which two reads differ.  0 if none differ."""
    return min((after - before for before, after in pairwise(sorted(set(times)))), default=0.0)


def text(head: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> str:
    """What came of it: the clocks, the length of a step in each regime, and a table of the spans."""
    clock, event = tick(head["clock_reads"]), tick(head["event_reads"])
    steps: dict[str, list[float]] = {}
    for request in requests:
        steps.setdefault(request["regime"], []).extend(request["steps"])
    lengths = [f"{regime} {1e3 * statistics.median(of):.3f} ms" for regime, of in steps.items() if of]
    rows = [
        [
            *(each.span, each.regime, each.start, str(each.samples), f"{each.event:.1f}", f"{each.clock:.1f}"),
            *(f"{value:+.1f}" for value in each.apart),
            f"{each.most:.1f}",
            f"{1e2 * each.within:.1f}%",
        ]
        for each in agreements(requests)
    ]
    columns = ["span, us", "regime", "begins in", "samples", "by events", "by clock"]
    columns += ["apart p5", "median", "p95", "most", f"within {WITHIN:g} us"]
    return "\n".join(
        [
            f"vLLM {head['facts']['vllm']}, {head['method']}, {head['facts']['device']}; the device's clock moves by "
            f"{clock:.0f} ns, an event's by {event:.0f} ns.",
            f"A step (median): {', '.join(lengths)}.",
            "",
            *table(columns, rows),
        ]
    )


# --- which clocks belong to which span ------------------------------------------------------------------------------


@dataclass
class Bracket:
    """A span of a sampled step, until its events have been read."""

    span: str
    row: int
    """Of the step, among those kept."""
    first: int | None = None
    last: int | None = None
    """The cells of its clocks; None before they are known."""


class Watch:
    """Follows telemetry's ring: which span is begun, which graph it replays, what its events said."""

    def __init__(self, ring: Any, graphs: Mapping[int, tuple[int, int]], write: Callable[[int], None]) -> None:
        self._ring = ring
        self._graphs = graphs
        """id of the event that begins a graph -> the cells of its clocks."""
        self._write = write
        self._brackets: dict[int, Bracket] = {}
        """By slot of the ring."""
        self._proposing: Bracket | None = None
        self._settling = 0
        self.row = 0
        self.read: list[tuple[Bracket, str, float]] = []
        """What has been read: the span, the event that it began with, and seconds by events."""

    @contextmanager
    def kept(self, before: Callable[[str], None]) -> Iterator[None]:
        """Follow within the block.  `before` is called with the span that is about to begin."""
        from specdecode_engine.telemetry import layout

        begin, mark, settle, observe = self._ring.begin, self._ring.mark, self._ring._settle, self._ring._observe

        def begun(span: int, cell: int) -> int | None:
            name = layout.SPANS[span].name
            followed = name in (TARGET, DRAFTER, PROPOSE) and layout.CELLS[cell][0] == layout.DECODE
            if followed:
                before(name)
            slot: int | None = begin(span, cell)
            if slot is not None:
                self._brackets.pop(slot, None)
                if followed:
                    self._begin(slot, Bracket(name, self.row))
            return slot

        def marked(slot: int | None, inside: Any) -> None:
            self._replayed(slot, self._graphs.get(id(inside)))
            mark(slot, inside)

        def settled(slot: int) -> bool:
            self._settling = slot
            return bool(settle(slot))

        def observed(span: int, cell: int, seconds: float) -> None:
            if bracket := self._brackets.pop(self._settling, None):
                start = "ring" if self._ring._inside[self._settling] is None else "graph"
                self.read.append((bracket, start, seconds))
            observe(span, cell, seconds)

        wrapped = [("begin", begun), ("mark", marked), ("_settle", settled), ("_observe", observed)]
        with engine.in_place((self._ring, name, wrapper) for name, wrapper in wrapped):
            yield

    def _begin(self, slot: int, bracket: Bracket) -> None:
        self._brackets[slot] = bracket
        if bracket.span == PROPOSE:
            self._proposing = bracket

    def _replayed(self, slot: int | None, cells: tuple[int, int] | None) -> None:
        """The span of `slot` is the replay of a graph with these clocks.  A drafter's is the last that propose does."""
        bracket = None if slot is None else self._brackets.get(slot)
        if bracket and cells:
            bracket.first, bracket.last = cells
            if self._proposing and bracket.span == DRAFTER:
                self._proposing.last = cells[1]

    def first_of_propose(self) -> None:
        """The first kernel of propose is launched next, or a later one of its name."""
        if self._proposing and self._proposing.first is None:
            self._write(OF_PROPOSE)
            self._proposing.first = OF_PROPOSE

    def step_ends(self) -> None:
        """A sampled step is over, and its clocks are kept in their row."""
        self._proposing = None
        self.row += 1

    def taken(self, rows: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        """What was read of the spans that have both clocks, given the kept rows of cells; forgets it all."""
        found = [
            {
                "span": bracket.span,
                "start": start,
                "event": round(seconds, 9),
                "clock": round(1e-9 * (rows[bracket.row][bracket.last] - rows[bracket.row][bracket.first]), 9),
            }
            for bracket, start, seconds in self.read
            if bracket.first is not None and bracket.last is not None
        ]
        self.read, self.row = [], 0
        return found


# --- on the device --------------------------------------------------------------------------------------------------


class Clocks:
    """Clocks in every graph that is captured, and rows in which they are kept.  Made before the engine."""

    def __init__(self) -> None:
        from bench.gpu import clock

        self._clock = clock
        self._cells = clock.cells(CELLS)
        self._rows = clock.cells(TOKENS * CELLS).view(TOKENS, CELLS, clock.APART)
        self._next = OF_PROPOSE + 1
        self._capturing: int | None = None
        self.graphs: dict[int, tuple[int, int]] = {}
        """id of the event that begins a graph -> its two cells; the graph keeps the event."""
        # Compiled and loaded now: that cannot be done while a graph is captured.
        self.write(OF_PROPOSE)

    def write(self, cell: int) -> None:
        self._clock.write(self._cells[cell])

    def keep(self, row: int) -> None:
        """Copy all clocks once the stream has come here, before a further step overwrites them."""
        self._rows[row].copy_(self._cells)

    def kept(self, rows: int) -> list[list[int]]:
        """The first rows, once the device has done what it was asked for."""
        return self._rows[:rows, :, 0].tolist()

    @contextmanager
    def in_graphs(self) -> Iterator[None]:
        """Graphs captured within the block begin and end with a clock: after telemetry's event, and after all else."""
        import torch

        from specdecode_engine.telemetry import recorder, worker

        start, leave = worker.graph_start, torch.cuda.graph.__exit__

        def started(graph: Any) -> None:
            start(graph)
            first, last = self._next, self._next + 1
            self._next += 2
            self.graphs[id(getattr(graph, recorder.GRAPH_START))] = first, last
            self.write(first)
            self._capturing = last

        def left(capture: Any, *raised: Any) -> Any:
            if self._capturing is not None:
                self.write(self._capturing)
                self._capturing = None
            return leave(capture, *raised)

        with engine.in_place([(worker, "graph_start", started), (torch.cuda.graph, "__exit__", left)]):
            yield


class Led:
    """A Triton kernel, and what is called before each launch of it."""

    def __init__(self, kernel: Any, before: Callable[[], None]) -> None:
        self._kernel = kernel
        self._before = before

    def __getitem__(self, grid: Any) -> Any:
        self._before()
        return self._kernel[grid]


class Bench:
    """An engine of this process whose graphs have clocks."""

    def __init__(self, method: str, models_in: str, seed: int = 1) -> None:
        self.clocks = Clocks()
        with self.clocks.in_graphs():
            self._llm = engine.start(Setup(models=models_in, method=method, seed=seed))
            from specdecode_engine.telemetry import worker

            self._worker = worker
            self._recorder = worker.taken()
            self._empty = self._empty_graph()
        worker.step.every = SAMPLED_EVERY
        self._watch = Watch(self._recorder.ring, self.clocks.graphs, self.clocks.write)
        self._prefix = arms.prefix(seed)
        self._asked = 0

    def _empty_graph(self) -> Any:
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._worker.graph_start(graph)
        return graph

    def empty(self) -> dict[str, Any]:
        """Spans over a graph of two clocks."""
        with self._watch.kept(self._wait), self._kept_rows():
            for _ in range(EMPTY_REPLAYS):
                self._recorder.begin_step(1, mixed=False)
                self._recorder.forward_begins()
                self._recorder.replay(self._empty)
                self._recorder.forward_ends()
                self._worker.ship()
                self._settle()
        return self._line(EMPTY, [])

    def ask(self, regime: str, tokens: int) -> dict[str, Any]:
        """One request: seconds of each decode step, and the spans of its sampled ones."""
        before = self._wait if regime == QUEUED else lambda span: None
        with self._watch.kept(before), self._kept_rows(), self._led(), _profiler(regime):
            steps = self._stepped(tokens)
            self._settle()
        return self._line(regime, steps)

    def _stepped(self, tokens: int) -> list[float]:
        self._asked += 1
        prompt = {"prompt_token_ids": [*self._prefix, *arms.tokens(f"spans/{self._asked}", arms.TAIL)]}
        self._llm.add_request(str(self._asked), prompt, engine.greedy(tokens))
        stamps = []
        while self._llm.has_unfinished_requests():
            if self._llm.step():
                stamps.append(time.perf_counter())
        for _ in range(engine.AHEAD):
            self._llm.step()
        return engine.rounded([after - before for before, after in pairwise(stamps)][engine.LED_IN :])

    def _line(self, regime: str, steps: list[float]) -> dict[str, Any]:
        rows = self.clocks.kept(self._watch.row)
        return {"regime": regime, "steps": steps, "spans": self._watch.taken(rows)}

    def _settle(self) -> None:
        """Wait for the device, and read the spans that are left."""
        import torch

        torch.cuda.synchronize()
        self._recorder.ring.poll()

    def _wait(self, span: str) -> None:
        """Let the device sleep before a span; the drafter's is within propose's."""
        import torch

        if span != DRAFTER:
            torch.cuda._sleep(SLEEP)

    def _kept_rows(self) -> AbstractContextManager[None]:
        """Keep the clocks at the end of each sampled step."""
        ship = self._worker.ship

        def shipped() -> bytes | None:
            self.clocks.keep(self._watch.row)
            self._watch.step_ends()
            return ship()

        return engine.in_place([(self._worker, "ship", shipped)])

    def _led(self) -> AbstractContextManager[None]:
        """A clock before propose's first kernel, where it is known."""
        import vllm

        if vllm.__version__ not in FIRST_OF_PROPOSE:
            return nullcontext()
        from vllm.v1.worker.gpu.spec_decode.dflash import speculator

        name = FIRST_OF_PROPOSE[vllm.__version__]
        led = Led(getattr(speculator, name), self._watch.first_of_propose)
        return engine.in_place([(speculator, name, led)])


def _profiler(regime: str) -> AbstractContextManager[Any]:
    if regime != PROFILED:
        return nullcontext()
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])


def record(method: str, file: Path, seconds: float) -> None:
    """Ask for so long, the engine's start included, then once under the profiler; each request is a line of `file`."""
    begun = time.monotonic()
    os.environ |= engine.ENVIRONMENT
    from bench.gpu import clock

    with tempfile.TemporaryDirectory() as folder:
        models.write(Path(folder), method)
        first, *rest = clock.reads(READS)
        reads = {"clock_reads": [each - first for each in rest], "event_reads": clock.event_reads(READS)}
        bench = Bench(method, folder)
        file.unlink(missing_ok=True)
        head = {"format": FORMAT, "spans": "telemetry", "method": method, "every": SAMPLED_EVERY}
        raw.add(file, head | {"facts": engine.facts()} | reads)
        bench.ask(FREE, TOKENS)
        raw.add(file, bench.empty())
        while True:
            for regime in (FREE, QUEUED):
                raw.add(file, bench.ask(regime, TOKENS))
            if time.monotonic() - begun > seconds:
                break
        raw.add(file, bench.ask(PROFILED, PROFILED_TOKENS))


def main(argv: Sequence[str] | None = None) -> int:
    """Record and show, or show."""
    return recording.main(
        argv,
        prog="bench.gpu.spans",
        about=__doc__.splitlines()[0],
        minutes=2.0,
        until="begin the end after about so many",
        record=record,
        text=text,
    )


if __name__ == "__main__":
    sys.exit(main())
