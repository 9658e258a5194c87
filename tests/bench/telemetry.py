"""What telemetry costs the host in a decode step: the hooks of one step, in the patched runner's order, round no work.

    make bench-telemetry

Before each step some memory is touched, since in an engine the step's own work takes the caches.  It runs on a CPU: an
event is a clock reading there, which costs less than recording a CUDA event does.  So what is read here is how sampled
and other steps compare with a step without hooks on this machine, and not what a GPU's host pays.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from specdecode_engine.telemetry import ranks, sampling, worker
from specdecode_engine.telemetry.recorder import Recorder
from specdecode_engine.telemetry.ring import ClockEvent, Event

TOUCHED = 8 * 2**20
"""Bytes touched before each step: more than a core's own caches hold."""

KINDS = ("without hooks", "sampled", "after a sampled", "not sampled")


class Graph:
    """A captured graph whose replay is nothing."""

    def replay(self) -> None:
        """Launch nothing."""


@contextmanager
def installed(every: int, make_event: Callable[[], Event] = ClockEvent) -> Iterator[Recorder]:
    """The worker's hooks with a recorder of its own, which samples each `every`-th step, and without the probe."""
    step, taken = sampling.Step(), Recorder(make_event)
    step.every = every
    silent = SimpleNamespace(run_if_due=lambda: None)
    with (
        mock.patch.multiple(worker, ENABLED=True, step=step, taken=lambda: taken, _probe=lambda: silent),
        mock.patch.object(ranks, "reports", return_value=True),
    ):
        yield taken


def hooked(target: Any, drafter: Any, output: Any) -> None:
    """One decode step as the patched runner makes it: a target and a drafter that replay graphs."""
    worker.begin_step(1, mixed=False)
    if worker.step.sampled:
        worker.taken().prepared()
    if worker.step.sampled:
        worker.taken().forward_begins()
    _replay(target)
    if worker.step.sampled:
        worker.taken().forward_ends()
    worker.proposing(_propose)(drafter)
    if worker.step.sampled:
        output.specdecode = worker.ship()


def _propose(drafter: Any) -> None:
    worker.rebuilding(_build)()
    _replay(drafter)


def _replay(graph: Any) -> None:
    if worker.step.sampled:
        return worker.taken().replay(graph)
    graph.replay()


def bare(target: Any, drafter: Any, output: Any) -> None:
    """The same step without hooks."""
    target.replay()
    _bare_propose(drafter)


def _bare_propose(drafter: Any) -> None:
    _build()
    drafter.replay()


def _build() -> None: ...


@dataclass(frozen=True)
class Row:
    """Median microseconds of a step, and how many it has beyond one without hooks."""

    name: str
    microseconds: float
    beyond: float


def measured(rounds: int, *, touched: int = TOUCHED) -> list[Row]:
    """Each kind of step, and the mean at the engine's stride."""
    medians = [statistics.median(times) * 1e6 for times in _times(rounds, touched)]
    beyond = [median - medians[0] for median in medians]
    mean = sum(beyond[1:3], beyond[3] * (sampling.EVERY - 2)) / sampling.EVERY
    rows = [Row(*each) for each in zip(KINDS, medians, beyond, strict=True)]
    return [*rows, Row(f"mean, 1 in {sampling.EVERY}", medians[0] + mean, mean)]


def _times(rounds: int, touched: int) -> tuple[list[float], ...]:
    """Seconds of each step, by kind.  The kinds take turns, so that all see the same machine."""
    memory = np.zeros(max(touched // 8, 1))
    target, drafter, output = Graph(), Graph(), SimpleNamespace(specdecode=None)
    times: tuple[list[float], ...] = tuple([] for _ in KINDS)
    with installed(len(KINDS) - 1):
        for turn in range(rounds * len(KINDS)):
            kind = turn % len(KINDS)
            memory += 1.0
            start = perf_counter()
            (hooked if kind else bare)(target, drafter, output)
            times[kind].append(perf_counter() - start)
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000, help="steps of each kind")
    args = parser.parse_args()
    for row in measured(args.rounds):
        print(f"{row.name:<18}{row.microseconds:>9.2f} us{row.beyond:>9.2f} us beyond")


if __name__ == "__main__":
    main()
