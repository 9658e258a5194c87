"""Where one engine's decode step goes: a profiler's trace of it, and a table of host phases, device work and idle gaps.

    PYTHONPATH=<site folder>:tests python3 -m bench.gpu.profile --method dspark --trace OUT/trace.json.gz
    PYTHONPATH=tests python3 -m bench.gpu.profile --read OUT/trace.json.gz

A profiled host is slower than a free one: what counts is which part is large, and what the device waits for.  The
device's spans are compared with the kernels that they claim to bracket.
"""

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.gpu import arms, engine, models
from bench.gpu.engine import Setup, Wrapped
from bench.gpu.report import table

STEP = "step"
OUTSIDE = "between steps"
TOKENS = 96
EDGE = 4
"""Steps at either end of the request that are left out: the prefill's and its like, and those of the end."""

DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
LAUNCH = frozenset({"cuda_runtime", "cuda_driver"})
"""Categories of a trace's events: what the device does, and the calls that ask for it."""

KERNELS = 12
"""Rows of the table of kernels."""

BRACKETED = {"propose_gpu": "propose", "drafter_gpu": "drafter", "target_forward_gpu": "target forward"}
"""Device span -> the phase whose kernels it claims to bracket."""

TELEMETRY = "telemetry's "
"""Before the name of a span that the series took itself."""

SAMPLED_EVERY = 3
"""Each how many traced steps telemetry samples, for enough of them in one request."""


@dataclass(frozen=True)
class Part:
    """Something with a name and a time, in microseconds of the trace's clock."""

    name: str
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Profile:
    """Means over the steps, in microseconds a step."""

    steps: int
    step: float
    busy: float
    """The device has work."""
    host: Mapping[str, float]
    """Phase -> time of the host in it, what is nested in it included."""
    own: Mapping[str, float]
    """Phase -> the same without what is nested in it."""
    idle: Mapping[str, float]
    """Phase that the host was in -> time in which the device had nothing to do."""
    kernels: Mapping[str, float]
    """Name -> time of the device, the longest first."""
    launches: Mapping[str, float]
    """Name -> how often, not in microseconds."""
    spans: Mapping[str, float]
    """Phase -> from the first to the last kernel that it launched."""


# --- pure -----------------------------------------------------------------------------------------------------------


def profile(trace: Mapping[str, Any]) -> Profile:
    """The means of a trace in Chrome's format.  Raises ValueError if it has too few steps."""
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    phases = [part(event) for event in events if event.get("cat") == "user_annotation"]
    steps = sorted((phase for phase in phases if phase.name == STEP), key=lambda step: step.start)[EDGE:-EDGE]
    if not steps:
        raise ValueError(f"no step left of this trace: more than {2 * EDGE} are needed")
    begin, end, count = steps[0].start, steps[-1].end, len(steps)
    inside = [phase for phase in phases if begin <= phase.start and phase.end <= end]
    device = [event for event in events if event.get("cat") in DEVICE and begin <= event["ts"] < end]
    work = merged(map(part, device))
    innermost = list(leaves(inside, begin, end))
    return Profile(
        steps=count,
        step=(end - begin) / count,
        busy=sum(each.length for each in work) / count,
        host=_a_step(((phase.name, phase.length) for phase in inside), count),
        own=_a_step(((leaf.name, leaf.length) for leaf in innermost), count),
        idle=_a_step(overlaps(gaps(work, begin, end), innermost), count),
        kernels=_a_step(((event["name"], event["dur"]) for event in device), count),
        launches=_a_step(((event["name"], 1.0) for event in device), count),
        spans=_spans(events, inside),
    )


def part(event: Mapping[str, Any]) -> Part:
    """An event with its end."""
    return Part(event["name"], event["ts"], event["ts"] + event["dur"])


def merged(parts: Iterable[Part]) -> list[Part]:
    """The union of the parts, in order."""
    found: list[Part] = []
    for each in sorted(parts, key=lambda each: each.start):
        if found and each.start <= found[-1].end:
            found[-1] = Part(found[-1].name, found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def gaps(work: Sequence[Part], begin: float, end: float) -> list[Part]:
    """What is between the parts of a union, from `begin` to `end`."""
    edges = [Part("", begin, begin), *work, Part("", end, end)]
    return [Part("idle", one.end, other.start) for one, other in pairwise(edges) if other.start > one.end]


def leaves(phases: Iterable[Part], begin: float, end: float) -> Iterator[Part]:
    """The innermost phase at each moment: nested phases of one thread, cut into parts that do not overlap."""
    within: list[Part] = []
    at = begin
    for phase in sorted(phases, key=lambda phase: (phase.start, -phase.end)):
        while within and within[-1].end <= phase.start:
            done = within.pop()
            yield from _leaf(done.name, at, done.end)
            at = max(at, done.end)
        yield from _leaf(within[-1].name if within else OUTSIDE, at, phase.start)
        at = max(at, phase.start)
        within.append(phase)
    while within:
        done = within.pop()
        yield from _leaf(done.name, at, done.end)
        at = max(at, done.end)
    yield from _leaf(OUTSIDE, at, end)


def _leaf(name: str, start: float, end: float) -> Iterator[Part]:
    if end > start:
        yield Part(name, start, end)


def overlaps(of: Iterable[Part], named: Sequence[Part]) -> Iterator[tuple[str, float]]:
    """(name, length) of every overlap with the named parts, which are in order and do not overlap."""
    starts = [each.start for each in named]
    for each in of:
        for other in named[max(0, bisect_right(starts, each.start) - 1) : bisect_right(starts, each.end)]:
            if (length := min(each.end, other.end) - max(each.start, other.start)) > 0:
                yield other.name, length


def _a_step(named: Iterable[tuple[str, float]], steps: int) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for name, length in named:
        total[name] += length
    return {name: length / steps for name, length in sorted(total.items(), key=lambda row: -row[1])}


def _spans(events: Sequence[Mapping[str, Any]], phases: Sequence[Part]) -> dict[str, float]:
    """Median over a phase's calls of the time from its first kernel's start to its last one's end."""
    launched: defaultdict[int, list[Part]] = defaultdict(list)
    for event in events:
        if event.get("cat") in DEVICE:
            launched[event["args"]["correlation"]].append(part(event))
    launches = sorted((event["ts"], event["args"]["correlation"]) for event in events if event.get("cat") in LAUNCH)
    times = [time for time, _ in launches]
    found: defaultdict[str, list[float]] = defaultdict(list)
    for phase in phases:
        calls = launches[bisect_right(times, phase.start) : bisect_right(times, phase.end)]
        if work := [each for _, correlation in calls for each in launched.get(correlation, ())]:
            found[phase.name].append(max(each.end for each in work) - min(each.start for each in work))
    return {name: statistics.median(lengths) for name, lengths in found.items()}


def text(found: Profile, measured: Mapping[str, Sequence[float]]) -> str:
    """Markdown: phases, kernels, and the spans beside what events said (`measured`: span -> seconds)."""
    names = [*found.host, *(name for name in found.idle if name not in found.host)]
    host = [[name, *(f"{of.get(name, 0.0):.0f}" for of in (found.host, found.own, found.idle))] for name in names]
    kernels = [[name[:80], f"{time:.1f}", f"{found.launches[name]:.1f}"] for name, time in found.kernels.items()]
    agree = [
        [name, f"{1e6 * statistics.median(measured[name]):.1f}", f"{found.spans[phase]:.1f}"]
        for span, phase in BRACKETED.items()
        for name in (span, f"{TELEMETRY}{span}")
        if measured.get(name) and phase in found.spans
    ]
    lines = [
        f"{found.steps} steps of {found.step:.0f} us; the device is busy for {found.busy:.0f} us of each.",
        "",
        *table(["host, us a step", "in all", "its own", "device idle meanwhile"], host),
        "",
        *table(["device, us a step", "time", "launches"], kernels[:KERNELS]),
    ]
    if agree:
        lines += ["", *table(["span, us", "by events", "by its kernels"], agree)]
    return "\n".join(lines)


# --- on the device --------------------------------------------------------------------------------------------------


def phases(llm: Any, runner: Any) -> list[Wrapped]:
    """Wrappers that name the phases of a step for the profiler."""
    from torch.profiler import record_function

    def named(label: str) -> Any:
        def wrap(run: engine.Run) -> engine.Run:
            def phase(*args: Any, **kwargs: Any) -> Any:
                with record_function(label):
                    return run(*args, **kwargs)

            return phase

        return wrap

    scheduler = llm.engine_core.engine_core.scheduler
    places = [
        (llm, "step", STEP),
        (llm.output_processor, "process_outputs", "process outputs"),
        (scheduler, "schedule", "schedule"),
        (scheduler, "update_from_output", "update from output"),
        (runner, "execute_model", "execute model"),
        (runner, "prepare_inputs", "prepare inputs"),
        (runner, "prepare_attn", "block tables, slot mappings"),
        (runner.model_state, "preprocess_state", "preprocess state"),
        (runner.model_state, "prepare_attn", "attention metadata"),
        (runner, "sample_tokens", "sample tokens"),
        (runner, "sample", "sample"),
        (runner, "postprocess_sampled", "postprocess sampled"),
        (runner.model_state, "postprocess_state", "postprocess state"),
        (runner.speculator, "propose", "propose"),
        *((graphs, "run_fullgraph", "drafter") for graphs in vars(runner.speculator).values()),
        *((graphs, "run_fullgraph", "target forward") for graphs in vars(runner).values()),
    ]
    return [wrapped for of, name, label in places for wrapped in engine.each(of, name, named(label))]


@contextmanager
def telemetry(into: dict[str, list[float]]) -> Iterator[None]:
    """Within the block, the device spans that the series' own telemetry reads; nothing from a stock tree."""
    try:
        from specdecode_engine.telemetry import layout, worker
    except ModuleNotFoundError:
        yield
        return
    ring = worker.taken().ring
    count = ring._observe

    def observe(span: int, cell: int, seconds: float) -> None:
        into.setdefault(f"{TELEMETRY}{layout.SPANS[span].name}", []).append(seconds)
        count(span, cell, seconds)

    every, worker.step.every = worker.step.every, SAMPLED_EVERY
    try:
        with engine.in_place([(ring, "_observe", observe)]):
            yield
    finally:
        worker.step.every = every


def record(method: str, file: Path) -> dict[str, list[float]]:
    """Trace one request of an engine of this process into `file`.  The spans that events measured meanwhile."""
    os.environ |= engine.ENVIRONMENT
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with tempfile.TemporaryDirectory() as folder:
        models.write(Path(folder), method)
        llm = engine.start(Setup(models=folder, method=method, seed=1))
        runner = engine.runner_of(llm)
        client = engine.Client(llm, engine.Spans(runner), seed=1)
        for warm in range(3):
            client.ask(arms.tokens(f"warm up {warm}", arms.TAIL), TOKENS)
        measured: dict[str, list[float]] = {}
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        # The events go round the names: both bracket the same calls.
        with (
            engine.in_place(phases(llm, runner)),
            engine.Spans(runner).taken(measured),
            telemetry(measured),
            profiler(activities=activities) as traced,
        ):
            client.ask(arms.tokens("traced", arms.TAIL), TOKENS)
    traced.export_chrome_trace(str(file))
    return measured


def main(argv: Sequence[str] | None = None) -> int:
    """Record and show, or show."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.profile", description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=sorted(arms.DRAFTED))
    parser.add_argument("--trace", type=Path, metavar="FILE", help="where to write the trace (.json.gz)")
    parser.add_argument("--read", type=Path, metavar="FILE", help="show this trace instead")
    args = parser.parse_args(argv)
    if not args.read and not (args.method and args.trace):
        parser.error("needed: --method and --trace, or --read")
    measured = {} if args.read else record(args.method, args.trace)
    with gzip.open(args.read or args.trace, "rt") as file:
        print(text(profile(json.load(file)), measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
