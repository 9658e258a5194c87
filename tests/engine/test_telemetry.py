"""Counts on their way from a step to /metrics: nothing lost, nothing counted twice, nothing waited for."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from specdecode_engine.telemetry import increments, layout, ring
from specdecode_engine.telemetry.exposition import Exposition, Metrics
from specdecode_engine.telemetry.increments import SHIP_EVERY, ForeignLayout, Increments
from specdecode_engine.telemetry.layout import BOUNDS, CELLS, DROPPED, SPANS
from specdecode_engine.telemetry.ring import Ring

SAMPLES = st.lists(
    st.tuples(
        st.integers(0, len(SPANS) - 1), st.integers(0, len(CELLS) - 1), st.floats(0, 10, allow_nan=False, width=32)
    ),
    max_size=50,
)


def exposed(add: Sequence[object] = (), engine: int = 0) -> tuple[CollectorRegistry, Exposition]:
    registry = CollectorRegistry()
    exposition = Exposition(Metrics(registry), model_name="m", engine=engine)
    for shipped in add:
        exposition.add(shipped)
    return registry, exposition


def values(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample, by name and labels: looked for one by one, each is a search through all."""
    samples = (sample for metric in registry.collect() for sample in metric.samples)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(name, {"model_name": "m", "engine": "0", **labels})
    assert found is not None, (name, labels)
    return found


def test_the_bounds_fit_five_microseconds_to_a_cpus_step() -> None:
    assert len(BOUNDS) == 14
    assert BOUNDS[0] == 5e-6
    assert BOUNDS[-1] > 0.5
    assert all(math.isclose(high / low, 2.5) for low, high in pairwise(BOUNDS))


def test_an_engine_exports_at_most_1500_series_all_there_at_the_start() -> None:
    registry, exposition = exposed()
    exposition.info(dict.fromkeys(ENGINE, "x"), [(f"o{n}", "active", True) for n in range(6)])
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    series = [line for line in lines if "_created{" not in line]
    assert len(series) == layout.series_of_one_engine(optimizations=6) <= 1500
    assert {line.rpartition(" ")[2] for line in series} == {"0.0", "1.0"}
    assert all(line.startswith("specdecode_") for line in series)


ENGINE = ("vllm_version", "series", "manifest_digest", "device", "method", "sample_every", "worker_rank")


@pytest.mark.parametrize(
    ("running", "batch"), [(0, "1"), (1, "1"), (2, "2"), (3, "4"), (4, "4"), (5, "8"), (128, "128"), (999, "128")]
)
def test_a_decode_step_counts_in_its_power_of_two(running: int, batch: str) -> None:
    assert CELLS[layout.cell(running, mixed=False)] == ("decode", batch)
    assert CELLS[layout.cell(running, mixed=True)] == ("mixed", "all")


@given(batches=st.lists(SAMPLES, max_size=4))
@settings(deadline=None, max_examples=25)
def test_every_sample_arrives_once_in_its_bucket(batches: list[list[tuple[int, int, float]]]) -> None:
    worker = Increments()
    shipped = []
    for turn, samples in enumerate(batches):
        for span, cell, seconds in samples:
            worker.observe(span, cell, seconds)
        shipped.append(worker.drain(now=(turn + 1) * SHIP_EVERY * 1.01))
    registry, _ = exposed(shipped)
    found = values(registry)
    for at, span in enumerate(SPANS):
        for index, (step, batch) in enumerate(CELLS):
            own = {"step": step, "batch": batch} if span.labelled else {}
            labels = frozenset({"model_name": "m", "engine": "0", **own}.items())
            mine = [
                seconds
                for samples in batches
                for s, c, seconds in samples
                if s == at and (c == index or not span.labelled)
            ]
            assert found[f"{span.metric}_count", labels] == len(mine)
            assert found[f"{span.metric}_sum", labels] == pytest.approx(sum(mine))
            under = found[f"{span.metric}_bucket", labels | {("le", str(BOUNDS[5]))}]
            assert under == sum(seconds <= BOUNDS[5] for seconds in mine)


def test_shipments_keep_their_distance_and_lose_nothing_by_it() -> None:
    worker = Increments()
    worker.observe(0, 0, 1.0)
    assert worker.drain(now=10.0) is not None
    worker.observe(0, 0, 2.0)
    assert worker.drain(now=10.0 + SHIP_EVERY / 2) is None
    later = worker.drain(now=10.0 + SHIP_EVERY * 1.01)
    assert later is not None
    assert [row.sum for row in increments.read(later).rows] == [2.0]
    assert worker.drain(now=99.0) is None


@pytest.mark.parametrize("shipped", [b"", b"something else", b"1EDS" + bytes(60), [0.5], {"spans": {}}, 1])
def test_another_layouts_shipment_is_a_drop_never_data(shipped: object) -> None:
    with pytest.raises(ForeignLayout):
        increments.read(shipped)
    registry, _ = exposed([shipped])
    assert value(registry, "specdecode_samples_dropped_total", reason="foreign_layout") == 1


@given(st.lists(st.integers(0, 8), max_size=40), st.integers(1, 8))
@settings(deadline=None, max_examples=40)
def test_acceptance_is_the_distribution_behind_the_engines_own_counts(lengths: list[int], drafted: int) -> None:
    accepted = [min(length, drafted) for length in lengths]
    registry, exposition = exposed()
    exposition.add_drafts(
        drafts=len(accepted),
        draft_tokens=len(accepted) * drafted,
        accepted_at=[sum(count > position for count in accepted) for position in range(drafted)],
    )
    assert value(registry, "specdecode_drafts_total") == len(accepted)
    assert value(registry, "specdecode_draft_tokens_total") == len(accepted) * drafted
    assert value(registry, "specdecode_acceptance_length_sum") == sum(1 + count for count in accepted)
    for bound in range(1, 10):
        under = value(registry, "specdecode_acceptance_length_bucket", le=f"{bound}.0")
        assert under == sum(1 + count <= bound for count in accepted)


class Deferred:
    """A device event whose work is done when the test says so."""

    def __init__(self) -> None:
        self.done, self.at, self.asked = False, 0.0, 0

    def record(self) -> None:
        self.done = False

    def query(self) -> bool:
        self.asked += 1
        return self.done

    def elapsed_time(self, end: "Deferred", /) -> float:
        return end.at - self.at


def deferred(capacity: int) -> tuple[Ring[Deferred], list[Deferred], list[tuple[int, int, float]], list[str]]:
    made: list[Deferred] = []
    seen: list[tuple[int, int, float]] = []
    dropped: list[str] = []

    def make() -> Deferred:
        made.append(Deferred())
        return made[-1]

    built = Ring(
        make,
        observe=lambda *sample: seen.append(sample),
        drop=lambda reason: dropped.append(DROPPED[reason]),
        capacity=capacity,
    )
    return built, made, seen, dropped


def test_a_device_span_is_read_only_once_it_is_done() -> None:
    spans, events, seen, dropped = deferred(capacity=2)
    spans.end(spans.begin(3, 1))
    spans.poll()
    assert seen == []
    events[0].at, events[1].at, events[1].done = 1.0, 4.0, True
    spans.poll()
    assert seen == [(3, 1, pytest.approx(0.003))]
    assert dropped == []
    assert len(events) == 4, "an event was made after the start"


def test_a_full_ring_drops_the_new_span_and_counts_it() -> None:
    spans, events, seen, dropped = deferred(capacity=1)
    spans.end(spans.begin(0, 0))
    spans.end(spans.begin(1, 0))
    assert dropped == ["ring_full"]
    events[1].done = True
    spans.poll()
    assert [span for span, _, _ in seen] == [0]
    assert spans.begin(2, 0) is not None


def test_a_span_left_by_an_exception_is_counted_and_frees_its_pair() -> None:
    spans, _, seen, dropped = deferred(capacity=1)
    spans.begin(0, 0)
    spans.poll()
    assert (seen, dropped) == ([], ["unpaired"])
    assert spans.begin(0, 0) is not None


def test_a_span_that_is_never_done_is_given_up_and_does_not_stop_the_rest() -> None:
    spans, events, seen, dropped = deferred(capacity=2)
    spans.end(spans.begin(0, 0))
    spans.end(spans.begin(1, 0))
    events[3].done = True
    for _ in range(ring.PATIENCE + 1):
        spans.poll()
    assert dropped == ["late"]
    assert [span for span, _, _ in seen] == [1]


def test_a_graphs_span_begins_with_the_event_inside_it() -> None:
    spans, events, seen, _ = deferred(capacity=1)
    inside = Deferred()
    slot = spans.begin(0, 0)
    spans.mark(slot, inside)
    spans.end(slot)
    events[0].at, inside.at, events[1].at, events[1].done = 1.0, 3.0, 4.0, True
    spans.poll()
    assert seen == [(0, 0, pytest.approx(0.001))]


def test_a_graph_that_may_be_replayed_before_its_span_is_done_is_read_from_the_event_before_it() -> None:
    spans, events, seen, dropped = deferred(capacity=1)
    inside = Deferred()
    slot = spans.begin(0, 0)
    spans.mark(slot, inside)
    spans.end(slot)
    spans.poll()
    events[0].at, inside.at, events[1].at, events[1].done = 1.0, 9.0, 4.0, True
    spans.poll()
    assert (seen, dropped) == ([(0, 0, pytest.approx(0.003))], [])


def test_of_two_replays_of_a_graph_in_a_step_the_last_has_the_event_inside() -> None:
    spans, events, seen, _ = deferred(capacity=2)
    inside = Deferred()
    for _ in range(2):
        slot = spans.begin(0, 0)
        spans.mark(slot, inside)
        spans.end(slot)
    for event, at in zip([*events, inside], (1.0, 2.0, 3.0, 6.0, 5.0), strict=True):
        event.at, event.done = at, True
    spans.poll()
    assert [seconds for _, _, seconds in seen] == [pytest.approx(0.001), pytest.approx(0.001)]


def test_a_span_without_an_event_of_its_own_is_not_marked() -> None:
    spans, events, seen, dropped = deferred(capacity=1)
    spans.end(spans.begin(0, 0))
    spans.mark(spans.begin(0, 0), Deferred())
    events[1].at, events[1].done = 2.0, True
    spans.poll()
    assert seen == [(0, 0, pytest.approx(0.002))]
    assert dropped == ["ring_full"]


def test_the_start_time_is_0_until_a_shipment_and_moves_when_the_engine_starts_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry, exposition = exposed()
    assert value(registry, "specdecode_start_time_seconds") == 0
    for started in (1700000000.25, 1700009999.5):
        monkeypatch.setattr(increments, "STARTED", started)
        worker = Increments()
        worker.observe(0, 0, 1.0)
        exposition.add(worker.drain(now=1.0))
        assert value(registry, "specdecode_start_time_seconds") == started
