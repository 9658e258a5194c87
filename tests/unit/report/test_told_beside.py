"""Acceptance by position and tokens a second, from what looks write down beside their verdicts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from simulatedrun import ACCEPTED, Simulation

from specdecode_operator.gates import told as gates_told
from specdecode_operator.gates.told import LENGTHS, PARTS
from specdecode_operator.report.case import Case
from specdecode_operator.report.told import decomposition, positions, told

PROPOSE, FORWARD = PARTS


def row(metric: str, arm: str, count: float, total: float, batch: str = "", **more: Any) -> dict[str, Any]:
    return {"metric": metric, "batch": batch, "arm": arm, "count": count, "sum": total, **more}


def lengths(arm: str, *longer: float) -> dict[str, Any]:
    """A hundred drafts, of which so many had their first, second, third token accepted."""
    buckets = {f"{place}.0": 100.0 - count for place, count in enumerate((*longer, 0.0), start=1)}
    return row(LENGTHS, arm, 100, 100 + sum(longer), buckets=buckets)


def arms(metric: str, stable: tuple[float, float], candidate: tuple[float, float], batch: str) -> list[dict[str, Any]]:
    return [row(metric, "stable", *stable, batch), row(metric, "candidate", *candidate, batch)]


WHOLE = [
    lengths("stable", 80, 60, 40),
    lengths("candidate", 70, 50, 30),
    *arms(PROPOSE, (100, 0.2), (100, 0.1), "4"),
    *arms(FORWARD, (100, 0.8), (100, 0.8), "4"),
]


def test_positions_are_shares_of_drafts_until_none_was_accepted() -> None:
    shares = positions(told([{"told": WHOLE}]))
    assert [(round(each.stable, 9), round(each.candidate, 9)) for each in shares] == [
        (0.8, 0.7),
        (0.6, 0.5),
        (0.4, 0.3),
    ]


def test_looks_add_up() -> None:
    once, twice = positions(told([{"told": WHOLE}])), positions(told([{"told": WHOLE}] * 2))
    assert once == twice
    assert told([{"told": WHOLE}] * 2)[LENGTHS, "", "stable"].count == 200


def test_tokens_a_second_are_acceptance_over_step_time() -> None:
    found = decomposition(told([{"told": WHOLE}]))
    assert found is not None
    assert found.acceptance.stable == pytest.approx(2.8)
    assert found.step.stable == pytest.approx(10.0)
    assert found.speed.stable == pytest.approx(280.0)
    assert found.speed.candidate == pytest.approx(1000 * 2.5 / 9)
    assert found.speed.change == pytest.approx(found.acceptance.change - found.step.change)


def test_another_mix_of_batches_is_no_difference_of_the_arms() -> None:
    """Both arms take 1 ms at batch 4 and 10 ms at 64; the candidate just had more of the large ones."""
    mixed = [
        *arms(FORWARD, (90, 0.09), (10, 0.01), "4"),
        *arms(FORWARD, (10, 0.1), (90, 0.9), "64"),
        *arms(PROPOSE, (100, 0.1), (100, 0.1), "4"),
    ]
    found = decomposition(told([{"told": [*WHOLE[:2], *mixed]}]))
    assert found is not None
    assert found.step.change == pytest.approx(0.0)


@pytest.mark.parametrize("gone", range(len(WHOLE)))
def test_a_step_time_without_a_part_is_none(gone: int) -> None:
    assert decomposition(told([{"told": [*WHOLE[:gone], *WHOLE[gone + 1 :]]}])) is None


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"metric": LENGTHS},
        7,
        None,
        row(LENGTHS, "stable", math.nan, 1),
        row(LENGTHS, "stable", -1, 1),
        row(LENGTHS, "stable", None, 1),  # type: ignore[arg-type]
        row(LENGTHS, "stable", 1, 1, buckets={"x": 1}),
    ],
)
def test_a_row_that_says_nothing_counts_nothing(bad: Any) -> None:
    assert told([{"told": [*WHOLE, bad]}]) == told([{"told": WHOLE}])


def test_a_look_sums_each_arm_and_leaves_flagged_samples_out() -> None:
    simulation = Simulation(pods=7, slots=((2, 10),))
    plan = simulation.plan().steps[0].starting(1e9)
    samples = [each for each in simulation.samples(plan, 0) if each.window_start == 1e9]
    found = {(each["metric"], each["batch"], each["arm"]): each for each in gates_told.rows(plan, samples)}
    assert len(found) == 2 * (2 * 2 + 1)
    drafts = found[LENGTHS, "", "candidate"]
    assert drafts["count"] == sum(s.count for s in samples if s.metric == LENGTHS and s.revision == "b81e6a7c04")
    assert drafts["buckets"]["+Inf"] == drafts["count"]
    flagged = [each.model_copy(update={"flags": ("reset",)}) for each in samples]
    assert gates_told.rows(plan, flagged) == []


def test_the_example_s_positions_are_those_that_it_was_drawn_from(case: Case) -> None:
    for both, true in zip(positions(told(case.last.looks)), ACCEPTED, strict=True):
        assert both.stable == pytest.approx(true, abs=0.02)
        assert both.candidate == pytest.approx(true, abs=0.03)
