"""A sampled step is taken whole, any other costs a look at a flag; what a step left on the device is read in time."""

import math
import sys
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from bench import telemetry as steps
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from specdecode_engine.telemetry import increments, layout, ranks, recorder, sampling, worker
from specdecode_engine.telemetry.exposition import Exposition, Metrics
from specdecode_engine.telemetry.recorder import Recorder

OURS = "specdecode_engine"
HOST = ("input_prep_host", "propose_host", "draft_rebuild_host")
DEVICE = ("target_forward_gpu", "propose_gpu", "drafter_gpu")


@pytest.fixture(autouse=True)
def nothing_is_shipped_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(increments, "SHIP_EVERY", 1e9)


@pytest.fixture
def taken() -> Iterator[Recorder]:
    """The hooks of a worker that samples each fifth step."""
    with steps.installed(5) as recorder_of_the_worker:
        yield recorder_of_the_worker


def step(target: Any = None, drafter: Any = None) -> None:
    steps.hooked(target or steps.Graph(), drafter or steps.Graph(), SimpleNamespace())


def counted(taken: Recorder) -> dict[str, int]:
    """Samples of each span."""
    shipped = taken.increments.drain(math.inf)
    registry = CollectorRegistry()
    Exposition(Metrics(registry), model_name="m", engine=0).add(shipped)
    rows = increments.read(shipped).rows if shipped else ()
    return {layout.SPANS[row.span].name: sum(row.buckets) for row in rows}


def calls(run: Callable[[], None]) -> list[str]:
    """Functions of ours that `run` calls, and what these call that is built in."""
    seen: list[str] = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if OURS in frame.f_code.co_filename:
            if event == "call":
                seen.append(frame.f_code.co_name)
            elif event == "c_call":
                seen.append(argument.__name__)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def test_a_step_that_is_not_sampled_reads_no_clock_and_records_no_event(taken: Recorder) -> None:
    for _ in range(2):
        step()
    assert calls(step) == ["begin_step", "next", "proposing", "rebuilding"]
    assert not worker.step.sampled


def test_a_sampled_step_has_every_span_once_and_no_other_step_any(taken: Recorder) -> None:
    for _ in range(10):
        step()
    step()
    assert counted(taken) == dict.fromkeys(HOST, 3) | dict.fromkeys(DEVICE, 2)


@given(st.integers(1, 16), st.integers(0, 1000))
def test_the_stride_visits_each_phase_of_what_repeats_in_an_engine(period: int, offset: int) -> None:
    assert {(offset + turn * sampling.EVERY) % period for turn in range(period)} == set(range(period))
    for power in (32, 64, 128, 256):
        assert math.gcd(power, sampling.EVERY) == 1


def test_a_worker_that_reports_to_nobody_samples_nothing(taken: Recorder) -> None:
    with mock.patch.object(ranks, "reports", return_value=False):
        for _ in range(11):
            step()
    assert counted(taken) == {}


def test_switched_off_no_step_is_sampled(taken: Recorder) -> None:
    with mock.patch.object(worker, "ENABLED", False):
        assert calls(step) == ["begin_step", "proposing", "rebuilding"]
    assert counted(taken) == {}


def test_a_dummy_run_counts_nothing_and_reads_what_the_step_before_left(taken: Recorder) -> None:
    step()
    worker.skip_step()
    assert set(counted(taken)) == {*HOST, *DEVICE}
    worker.proposing(steps.Graph.replay)(steps.Graph())
    assert counted(taken) == {}


def test_a_dummy_run_counts_nothing_for_a_step_that_ended_without_shipping(taken: Recorder) -> None:
    worker.begin_step(1, mixed=False)
    worker.skip_step()
    worker.proposing(steps.Graph.replay)(steps.Graph())
    assert counted(taken) == {}


def test_a_step_left_by_an_exception_does_not_sample_the_next(taken: Recorder) -> None:
    class Broken:
        def replay(self) -> None:
            raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError):
        step(drafter=Broken())
    step()
    assert counted(taken) == {"input_prep_host": 1, "target_forward_gpu": 1}


def test_a_steps_spans_count_in_the_batch_it_began_with(taken: Recorder) -> None:
    worker.begin_step(3, mixed=False)
    worker.taken().prepared()
    (row,) = increments.read(taken.increments.drain(math.inf)).rows
    assert layout.CELLS[row.cell] == ("decode", "4")


class Clocked:
    """Events, and graphs whose replay takes a while, on a clock of the test's."""

    now = 0.0

    def __init__(self) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = Clocked.now

    def query(self) -> bool:
        return self.at <= Clocked.now

    def elapsed_time(self, end: "Clocked", /) -> float:
        return (end.at - self.at) * 1e3


class Launched:
    """A graph that the device begins `launch` seconds after the call, with an event inside."""

    def __init__(self, launch: float, work: float) -> None:
        self.launch, self.work = launch, work
        setattr(self, recorder.GRAPH_START, Clocked())

    def replay(self) -> None:
        Clocked.now += self.launch
        getattr(self, recorder.GRAPH_START).record()
        Clocked.now += self.work


@pytest.mark.parametrize("every", [1, 5])
def test_a_graphs_launch_is_in_no_span_of_it(every: int) -> None:
    Clocked.now = 0.0
    target, drafter = Launched(launch=0.5, work=0.25), Launched(launch=0.5, work=0.125)
    with steps.installed(every, Clocked) as taken:
        for _ in range(2):
            step(target, drafter)
        shipped = taken.increments.drain(math.inf)
    assert shipped is not None
    seconds = {layout.SPANS[row.span].name: row.sum for row in increments.read(shipped).rows}
    assert seconds["target_forward_gpu"] == pytest.approx(0.25)
    assert seconds["drafter_gpu"] == pytest.approx(0.125)
    assert seconds["propose_gpu"] == pytest.approx(0.625)


def test_a_graph_captured_without_an_event_is_timed_from_before_its_replay() -> None:
    Clocked.now = 0.0
    target = Launched(launch=0.5, work=0.25)
    delattr(target, recorder.GRAPH_START)
    target.replay = lambda: setattr(Clocked, "now", Clocked.now + 0.75)  # type: ignore[method-assign]
    with steps.installed(5, Clocked) as taken:
        step(target)
        taken.ring.poll()
        shipped = taken.increments.drain(math.inf)
    assert shipped is not None
    seconds = {layout.SPANS[row.span].name: row.sum for row in increments.read(shipped).rows}
    assert seconds["target_forward_gpu"] == pytest.approx(0.75)


def test_the_benchmark_has_a_row_for_each_kind_of_step() -> None:
    rows = steps.measured(3, touched=8)
    assert [row.name for row in rows] == [*steps.KINDS, f"mean, 1 in {sampling.EVERY}"]
    assert rows[0].beyond == 0
    assert all(row.microseconds > 0 for row in rows)
