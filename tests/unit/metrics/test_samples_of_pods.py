"""Raw series into samples: what is joined and differenced, and what spends a window."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from judged import plan_data
from scraped import (
    BORN,
    BUCKET,
    COUNT,
    GRID,
    PATIENT,
    QUESTION,
    SPAN,
    SUM,
    TIMES,
    Change,
    Standin,
    every,
    once_more,
    pod,
    relabelled,
    series,
    without,
)  # fmt: skip

from specdecode_engine.telemetry import layout
from specdecode_engine.telemetry.exposition import ENGINE_LABELS
from specdecode_operator.api import names
from specdecode_operator.gates.intake import Fault, take_in
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Reason
from specdecode_operator.metrics.answer import Series
from specdecode_operator.metrics.backends import Backend
from specdecode_operator.metrics.errors import NoData, TooMuch
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.query import Metric, Question

PER_SCRAPE = ("up", "process_start_time_seconds", COUNT, SUM)


async def taken(backend: Backend, question: Question = QUESTION) -> list[Sample]:
    found = await fetch(backend, question, limits=PATIENT)
    return sorted(found, key=lambda one: (one.pod_uid, one.step, one.batch, one.window_start))


# --- What a sample holds ----------------------------------------------------------------------------------------------


async def test_a_sample_is_what_grew_between_the_last_scrapes_before_the_window_s_ends(backend: Backend) -> None:
    first, *_ = await taken(backend)
    assert first.sum == pytest.approx(0.6)
    assert first == Sample(
        window_start=1000.0,
        window_end=1030.0,
        revision="old",
        pod_uid="uid-1",
        node="node-uid-1",
        start_time=BORN,
        metric=SPAN,
        step="decode",
        batch="4",
        count=300.0,
        sum=first.sum,
        requests=6.0,
        manifest_digest="sha256:old",
        sample_every=8,
    )


async def test_windows_join_without_losing_or_doubling_a_step(backend: Backend) -> None:
    found = await taken(backend)
    assert [(one.window_start, one.flags) for one in found] == [(1000.0, ()), (1030.0, ()), (1060.0, ())]
    assert sum(one.count for one in found) == 900.0


async def test_pieces_of_a_question_give_the_samples_of_the_whole(backend: Backend) -> None:
    pieces = [sample for piece in QUESTION.pieces(2) for sample in await taken(backend, piece)]
    assert pieces == await taken(backend)


async def test_ranks_of_a_pod_are_summed(backend: Backend, standin: Standin) -> None:
    standin.series = once_more([COUNT, SUM], engine="1")(pod())
    found = await taken(backend)
    assert [(one.count, one.flags) for one in found] == [(600.0, ())] * 3


async def test_a_scrape_that_lacks_a_rank_is_no_scrape(backend: Backend, standin: Standin) -> None:
    late = [one for one in pod(times=TIMES[5:]) if one.labels["__name__"] in (COUNT, SUM)]
    standin.series = [*pod(), *relabelled([COUNT, SUM], engine="1")(late)]
    assert [(one.count, one.flags) for one in await taken(backend)] == [
        (0.0, ("stale",)), (0.0, ("stale",)), (600.0, ()),
    ]  # fmt: skip


async def test_a_rank_that_has_only_a_part_of_the_number_makes_no_wrong_mean(
    backend: Backend, standin: Standin
) -> None:
    standin.series = once_more([COUNT], engine="1")(pod())
    assert {(one.count, one.sum, one.flags) for one in await taken(backend)} == {(0.0, 0.0, ("stale",))}


async def test_reasons_of_a_count_are_summed_and_no_scrape_is_needed_of_a_sum(
    backend: Backend, standin: Standin
) -> None:
    for place, reason in enumerate(("late", "ring_full")):
        standin.series.append(
            series(names.METRIC_DROPPED, [(t, (place + 1) * (t - BORN)) for t in TIMES], reason=reason, engine="0")
        )
    found = await taken(backend, replace(QUESTION, metrics=(Metric(names.METRIC_DROPPED),)))
    assert [(one.count, one.sum, one.step, one.batch) for one in found] == [(90.0, 0.0, "", "")] * 3


async def test_buckets_are_read_where_they_are_asked_for(backend: Backend, standin: Standin) -> None:
    standin.series += [
        series(BUCKET, [(t, part * (t - BORN)) for t in TIMES], step="decode", batch="4", model_name="chat", engine="0",
               le=bound)
        for bound, part in (("0.01", 4), ("+Inf", 10))
    ]  # fmt: skip
    assert [one.buckets for one in await taken(backend)] == [None] * 3
    asked = replace(QUESTION, metrics=(Metric(SPAN, buckets=True),))
    assert [one.buckets for one in await taken(backend, asked)] == [{"0.01": 120.0, "+Inf": 300.0}] * 3


async def test_a_histogram_of_more_buckets_than_a_sample_holds_is_refused(backend: Backend, standin: Standin) -> None:
    standin.series += [series(BUCKET, [(t, 1.0) for t in TIMES], step="decode", batch="4", model_name="chat",
                              engine="0", le=str(bound)) for bound in range(65)]  # fmt: skip
    with pytest.raises(TooMuch, match="65 buckets"):
        await taken(backend, replace(QUESTION, metrics=(Metric(SPAN, buckets=True),)))


async def test_batches_and_pods_stay_apart(backend: Backend, standin: Standin) -> None:
    standin.series = [*once_more([COUNT, SUM], batch="8")(pod()), *pod("uid-2", specdecode_revision="new")]
    found = await taken(backend)
    assert [(one.pod_uid, one.revision, one.batch) for one in found[::3]] == [
        ("uid-1", "old", "4"), ("uid-1", "old", "8"), ("uid-2", "new", "4"),
    ]  # fmt: skip
    assert {one.flags for one in found} == {()}


# --- What spends a window ---------------------------------------------------------------------------------------------


def lost(names: tuple[str, ...], since: float = 1030.0, until: float = 1060.0) -> Change:
    """No point of these in a window."""
    return every(names, lambda point: None if since < point[0] <= until else point)


def fallen(point: tuple[float, float]) -> tuple[float, float]:
    return (point[0], point[1] - 4000) if point[0] > 1040 else point


def started_again(found: list[Series]) -> list[Series]:
    """Counters from 0 and another start, in the second window."""
    found = every(["process_start_time_seconds"], lambda p: (p[0], 1041.0) if p[0] > 1041 else p)(found)
    found = every([COUNT], lambda p: (p[0], 10 * (p[0] - 1041)) if p[0] > 1041 else p)(found)
    return every([SUM], lambda p: (p[0], 0.02 * (p[0] - 1041)) if p[0] > 1041 else p)(found)


def silent(point: tuple[float, float]) -> tuple[float, float]:
    return (point[0], 0.0) if 1030 < point[0] <= 1060 else point


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (every([COUNT], fallen), "reset"),
        (every([SUM], fallen), "reset"),
        (started_again, "restart"),
        (lost(PER_SCRAPE), "gap"),
        (lost((COUNT, SUM)), "stale"),
        (lost((SUM,)), "stale"),
        (lambda found: every(["up"], silent)(lost((COUNT, SUM, "process_start_time_seconds"))(found)), "down"),
        (lost(("process_start_time_seconds",)), "startUnknown"),
        (every([COUNT], lambda p: (p[0], math.nan) if p[0] == 1045 else p), "notFinite"),
        (every([SUM], lambda p: (p[0], math.inf) if p[0] == 1045 else p), "notFinite"),
        (every([SUM], lambda p: (p[0], -math.inf) if p[0] == 1045 else p), "notFinite"),
    ],
)
async def test_what_happens_in_a_window_spends_that_window(
    backend: Backend, standin: Standin, change: Change, flag: str
) -> None:
    standin.series = change(pod())
    first, second, third = await taken(backend)
    assert (first.flags, second.flags) == ((), (flag,))
    assert (second.count, second.sum) == (0.0, 0.0)
    # What is missing at a window's end is missing at the next one's start.
    assert third.flags in ((), (flag,))


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (every(["process_start_time_seconds"], lambda p: (p[0], p[0] + 60)), "clockJump"),
        (every([COUNT], lambda p: (2070 - p[0], p[1])), "clockJump"),
        (every(["process_start_time_seconds"], lambda p: (p[0], math.nan)), "startUnknown"),
        (every(["process_start_time_seconds"], lambda p: (p[0], 1e300)), "startUnknown"),
        (without("process_start_time_seconds"), "startUnknown"),
        (once_more([COUNT, SUM], job="another"), "duplicate"),
        (once_more([COUNT, SUM]), "duplicate"),
        (once_more(["specdecode_engine_info"], manifest_digest="sha256:else"), "identity"),
        (once_more(["specdecode_engine_info"], sample_every="1"), "identity"),
    ],
)
async def test_what_makes_a_series_unfit_spends_all_its_windows(
    backend: Backend, standin: Standin, change: Change, flag: str
) -> None:
    standin.series = change(pod())
    found = await taken(backend)
    assert found
    assert {one.flags for one in found} == {(flag,)}


@pytest.mark.parametrize("labels", [{"pod_uid": "else"}, {"namespace": "else"}, {"specdecode_name": "else"},
                                    {"specdecode_revision": "else"}])  # fmt: skip
async def test_what_was_not_asked_for_is_flagged_as_foreign(
    backend: Backend, standin: Standin, labels: dict[str, str]
) -> None:
    standin.obeys = False
    standin.series = [*pod(), *pod("uid-2", **labels)]
    found = await taken(backend, replace(QUESTION, revisions=("old",), pods=frozenset({"uid-1", "uid-2"})))
    flags = [one.flags for one in found if (one.node, one.flags) != ("node-uid-1", ())]
    assert flags == [("foreign",)] * 3


async def test_a_series_that_another_target_takes_over_is_no_duplicate(backend: Backend, standin: Standin) -> None:
    standin.series = [*pod(times=TIMES[:6]), *pod(times=TIMES[6:], job="renamed")]
    assert [one.flags for one in await taken(backend)] == [(), ("stale",), ()]


async def test_our_own_start_time_stands_for_the_library_s(backend: Backend, standin: Standin) -> None:
    own = relabelled(["process_start_time_seconds"], __name__=names.METRIC_OWN_START, engine="0")
    standin.series = own(pod())
    assert [(one.start_time, one.flags) for one in await taken(backend)] == [(BORN, ())] * 3


async def test_a_worker_that_has_not_said_when_it_began_is_no_known_process(backend: Backend, standin: Standin) -> None:
    standin.series = without("process_start_time_seconds")(pod())
    standin.series.append(series(names.METRIC_OWN_START, [(time, BORN * (time > 1045)) for time in TIMES]))
    assert [(one.start_time, one.flags) for one in await taken(backend)] == [
        (BORN, ("startUnknown",)), (BORN, ("startUnknown",)), (BORN, ()),
    ]  # fmt: skip


async def test_the_library_s_start_time_is_taken_where_there_are_both(backend: Backend, standin: Standin) -> None:
    own = series(names.METRIC_OWN_START, [(time, BORN + 7) for time in TIMES[4:]])
    standin.series = [*pod(), own]
    assert [(one.start_time, one.flags) for one in await taken(backend)] == [(BORN, ())] * 3


async def test_a_replaced_pod_has_no_sample_before_it_was_there(backend: Backend, standin: Standin) -> None:
    standin.series = [*pod(times=TIMES[:5]), *pod("uid-2", times=TIMES[8:], born=1060.0)]
    found = await taken(backend)
    assert [(one.pod_uid, one.window_start, one.flags) for one in found] == [
        ("uid-1", 1000.0, ()),
        ("uid-1", 1030.0, ("gap",)),
        ("uid-1", 1060.0, ("gap",)),
        ("uid-2", 1060.0, ("gap",)),
    ]


# --- As the judge takes them ------------------------------------------------------------------------------------------


def faults(found: list[Sample]) -> tuple[Fault, ...]:
    """What the judge's intake finds wrong in samples of one stable and one candidate pod."""
    plan = Plan.model_validate({
        **plan_data(1, 1),
        "trays": [{"node": "node-uid-1"}, {"node": "node-uid-2"}],
        "stable": {"revision": "old", "pods": 1},
        "candidate": {"revision": "new", "pods": 1},
        "windows": {"start": GRID.start, "seconds": GRID.seconds, "planned": 3, "firstLook": 2},
    })  # fmt: skip
    return take_in(plan, found).faults


def candidate(**labels: str) -> list[Series]:
    return pod("uid-2", specdecode_revision="new", **labels)


async def test_the_judge_finds_nothing_wrong_in_good_samples(backend: Backend, standin: Standin) -> None:
    standin.series = [*pod(), *candidate()]
    assert faults(await taken(backend)) == ()


@pytest.mark.parametrize(
    "change",
    [
        lost(PER_SCRAPE, 980, 1010), lost(PER_SCRAPE), lost(("process_start_time_seconds",)),
        lost(("process_start_time_seconds",), 980, 1030), lost((COUNT, SUM), 980, 1030),
        every([COUNT], lambda p: (2070 - p[0], p[1])),
    ],
)  # fmt: skip
async def test_lost_scrapes_of_the_candidate_are_no_restart_to_the_judge(
    backend: Backend, standin: Standin, change: Change
) -> None:
    standin.series = [*pod(), *change(candidate())]
    found = await taken(backend)
    assert any(one.flags for one in found)
    assert faults(found) == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (once_more([COUNT, SUM], job="another"), Reason.DUPLICATE_SERIES),
        (started_again, Reason.CANDIDATE_RESTARTED),
        (every(["process_start_time_seconds"], lambda p: (p[0], p[0] + 60)), Reason.CLOCK_JUMP),
        (relabelled([COUNT, SUM, "up"], pod_uid=""), Reason.FOREIGN_SERIES),
        (relabelled([COUNT, SUM], node="elsewhere"), Reason.FOREIGN_SERIES),
        (relabelled([COUNT, SUM], specdecode_revision="third"), Reason.FOREIGN_SERIES),
        (relabelled(["specdecode_engine_info"], sample_every="1"), Reason.SAMPLING_DIFFERS),
    ],
)
async def test_what_makes_a_run_invalid_reaches_the_judge(
    backend: Backend, standin: Standin, change: Change, reason: Reason
) -> None:
    standin.series = [*pod(), *change(candidate())]
    assert reason in {fault.reason for fault in faults(await taken(backend))}


# --- No samples -------------------------------------------------------------------------------------------------------


async def test_pods_that_nobody_scraped_are_no_data(backend: Backend, standin: Standin) -> None:
    standin.series = []
    with pytest.raises(NoData, match="no such pod was scraped") as raised:
        await taken(backend)
    assert 'specdecode_name="chat"' in str(raised.value), "the query is shown"


async def test_pods_without_the_metric_are_no_data(backend: Backend, standin: Standin) -> None:
    standin.series = without(COUNT, SUM)([*pod(), *pod("uid-2")])
    with pytest.raises(NoData, match="2 pods were scraped and have none of it"):
        await taken(backend)


async def test_one_metric_of_two_is_data(backend: Backend) -> None:
    found = await taken(backend, replace(QUESTION, metrics=(Metric(names.METRIC_ACCEPTANCE), Metric(SPAN))))
    assert {one.metric for one in found} == {SPAN}


# --- Names ------------------------------------------------------------------------------------------------------------


def test_the_names_are_those_that_the_engine_exports() -> None:
    assert tuple(span.metric for span in layout.SPANS) == names.METRIC_SPANS
    assert layout.ACCEPTANCE == names.METRIC_ACCEPTANCE
    assert f"{layout.FINISHED}_total" == names.METRIC_FINISHED
    assert f"{layout.SAMPLES_DROPPED}_total" == names.METRIC_DROPPED
    assert layout.ENGINE_INFO == names.METRIC_ENGINE_INFO
    assert layout.STARTED == names.METRIC_OWN_START
    assert {"manifest_digest", "sample_every"} < set(ENGINE_LABELS)
