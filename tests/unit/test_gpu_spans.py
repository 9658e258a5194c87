"""Telemetry's spans beside the device's clock: which clocks belong to which span, on a device of this file; figures.

The measurement itself needs a GPU.  Telemetry's own recorder and ring run here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from bench.gpu import spans
from bench.gpu.spans import DRAFTER, FREE, PROPOSE, QUEUED, TARGET, Led, Watch

from specdecode_engine.telemetry.recorder import GRAPH_START, Recorder

MICROSECOND = 1_000
HEAD = {
    "method": "dspark",
    "facts": {"vllm": "0.33.0", "device": "a device"},
    "clock_reads": [0, 32, 32, 96],
    "event_reads": [512.0, 1024.0, 1536.0],
}


class Device:
    """Nanoseconds that pass with each piece of work; work is done when it is launched."""

    def __init__(self) -> None:
        self.now = 0
        self.cells = [0] * 16

    def works(self, microseconds: int) -> None:
        self.now += microseconds * MICROSECOND

    def write(self, cell: int) -> None:
        self.works(1)
        self.cells[cell] = self.now


class Event:
    """On the device's time; done unless told otherwise."""

    pending = False

    def __init__(self, device: Device) -> None:
        self._device = device
        self._at = 0

    def record(self) -> None:
        self._at = self._device.now

    def query(self) -> bool:
        return not Event.pending

    def elapsed_time(self, end: Event) -> float:
        return (end._at - self._at) * 1e-6


class Graph:
    """An event, a clock, work, a clock."""

    def __init__(self, device: Device, cells: tuple[int, int], work: int) -> None:
        setattr(self, GRAPH_START, Event(device))
        self._device, self._cells, self._work = device, cells, work

    def replay(self) -> None:
        self._device.works(7)  # the launch, in which the device waits
        getattr(self, GRAPH_START).record()
        self._device.write(self._cells[0])
        self._device.works(self._work)
        self._device.write(self._cells[1])


class Served:
    """Steps as the patched model runner takes them, with a clock before propose's kernel."""

    def __init__(self) -> None:
        self.device = Device()
        self.recorder = Recorder(lambda: Event(self.device))
        self.target, self.drafter = Graph(self.device, (1, 2), 300), Graph(self.device, (3, 4), 100)
        graphs = {id(getattr(self.target, GRAPH_START)): (1, 2), id(getattr(self.drafter, GRAPH_START)): (3, 4)}
        self.watch = Watch(self.recorder.ring, graphs, self.device.write)
        self.rows: list[list[int]] = []
        self.waited: list[str] = []

    @contextmanager
    def kept(self, waits: int = 0) -> Iterator[None]:
        def wait(span: str) -> None:
            self.waited.append(span)
            self.device.works(waits)

        with self.watch.kept(wait):
            yield

    def step(self, *, mixed: bool = False) -> None:
        self.recorder.ring.poll()
        self.recorder.begin_step(1, mixed=mixed)
        self.recorder.forward_begins()
        self.recorder.replay(self.target)
        self.recorder.forward_ends()
        self.recorder.proposing(self.propose)()
        self.rows.append(list(self.device.cells))
        self.watch.step_ends()

    def propose(self) -> None:
        self.device.works(20)  # the host's way to its first launch
        kernel = Led({"grid": lambda: self.device.works(5)}, self.watch.first_of_propose)
        kernel["grid"]()
        kernel["grid"]()
        self.recorder.replay(self.drafter)

    def taken(self) -> list[dict[str, Any]]:
        self.recorder.ring.poll()
        return self.watch.taken(self.rows)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setattr(Event, "pending", False)
    return Served()


def microseconds(span: dict[str, Any]) -> tuple[float, float]:
    return round(1e6 * span["event"], 3), round(1e6 * span["clock"], 3)


def test_a_graphs_span_is_beside_the_clocks_of_that_graph(served: Served) -> None:
    with served.kept():
        served.step()
        found = {span["span"]: span for span in served.taken()}
    assert microseconds(found[TARGET]) == (302, 301)
    assert microseconds(found[DRAFTER]) == (102, 101)
    assert found[TARGET]["start"] == found[DRAFTER]["start"] == "graph"


def test_proposes_clocks_are_before_its_first_kernel_and_at_the_drafters_end(served: Served) -> None:
    with served.kept():
        served.step()
        found = {span["span"]: span for span in served.taken()}
    # 20 us of the host, the clock, two kernels of 5 us, 7 us of launch and the drafter's graph
    assert microseconds(found[PROPOSE]) == (20 + 1 + 10 + 7 + 102, 10 + 7 + 102)
    assert found[PROPOSE]["start"] == "ring"


def test_a_span_is_beside_the_clocks_of_its_own_step(served: Served) -> None:
    with served.kept():
        for work in (10, 20, 30):
            served.drafter._work = work
            served.step()
        found = [microseconds(span) for span in served.taken() if span["span"] == DRAFTER]
    assert found == [(12, 11), (22, 21), (32, 31)]


def test_a_span_that_is_read_late_begins_with_the_rings_event(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with served.kept():
        served.step()
        monkeypatch.setattr(Event, "pending", True)
        served.recorder.ring.poll()
        monkeypatch.setattr(Event, "pending", False)
        found = {span["span"]: span for span in served.taken()}
    assert found[TARGET]["start"] == "ring"
    assert microseconds(found[TARGET]) == (302 + 7, 301)


def test_what_comes_before_a_span_is_not_in_it(served: Served) -> None:
    with served.kept(waits=1000):
        served.step()
        found = {span["span"]: microseconds(span) for span in served.taken()}
    assert found[TARGET] == (302, 301)
    assert found[DRAFTER] == (102, 101)
    assert served.waited == [TARGET, PROPOSE, DRAFTER]


def test_a_step_that_prefills_and_a_replay_outside_the_block_leave_nothing(served: Served) -> None:
    with served.kept():
        served.step(mixed=True)
        assert served.taken() == []
    served.step()
    assert served.taken() == []


def test_what_was_taken_is_forgotten(served: Served) -> None:
    with served.kept():
        served.step()
        served.taken()
        assert served.taken() == []
        assert served.watch.row == 0


def test_graphs_end_with_a_clock_if_telemetry_began_them(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []

    class Capture:
        def __exit__(self, *raised: Any) -> None:
            said.append("left")

        def __enter__(self) -> None:
            said.append("entered")

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(graph=Capture)))
    monkeypatch.setattr("specdecode_engine.telemetry.worker.graph_start", lambda graph: setattr(graph, GRAPH_START, 1))
    clocks = object.__new__(spans.Clocks)
    clocks._next, clocks._capturing, clocks.graphs = 1, None, {}
    monkeypatch.setattr(clocks, "write", said.append)
    from specdecode_engine.telemetry import worker

    with clocks.in_graphs():
        with Capture():
            worker.graph_start(SimpleNamespace())
            said.append("work")
        with Capture():
            pass
    assert said == ["entered", 1, "work", 2, "left", "entered", "left"]
    assert list(clocks.graphs.values()) == [(1, 2)]


def request(regime: str, *apart: float) -> dict[str, Any]:
    """Spans of 100 us by the clock, and so many longer by events."""
    return {
        "regime": regime,
        "steps": [4e-3] * 3,
        "spans": [{"span": DRAFTER, "start": "graph", "event": (100 + each) * 1e-6, "clock": 100e-6} for each in apart],
    }


def test_agreement_is_by_span_regime_and_start() -> None:
    found = spans.agreements([request(FREE, 1, 2), request(QUEUED, -8), request(FREE, 3, 40)])
    assert [(each.regime, each.samples) for each in found] == [(FREE, 4), (QUEUED, 1)]
    free, queued = found
    assert free.clock == pytest.approx(100)
    assert free.event == pytest.approx(102.5)
    assert free.apart == pytest.approx((1.15, 2.5, 34.45))
    assert free.within == 0.75
    assert free.most == pytest.approx(40)
    assert queued.most == pytest.approx(8)
    assert queued.within == 0


@pytest.mark.parametrize(("reads", "found"), [([0, 32, 32, 96], 32), ([5, 5], 0), ([3.5, 1.0, 2.0], 1.0)])
def test_a_clocks_resolution_is_the_least_difference(reads: list[float], found: float) -> None:
    assert spans.tick(reads) == found


def test_the_table_has_the_figures() -> None:
    said = spans.text(HEAD, [request(FREE, 1, 2, 3), {"regime": spans.EMPTY, "steps": [], "spans": []}])
    assert "vLLM 0.33.0, dspark, a device; the device's clock moves by 32 ns, an event's by 512 ns." in said
    assert "A step (median): free 4.000 ms.\n" in said
    row = "| drafter_gpu | free | graph | 3 | 102.0 | 100.0 | +1.1 | +2.0 | +2.9 | 3.0 | 100.0% |"
    assert said.splitlines()[-1] == row
