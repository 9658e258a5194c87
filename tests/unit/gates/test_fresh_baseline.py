"""A baseline of restarted stable pods: what a short uptime costs is no regression, and what is one still fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from judged import PROBE, START, World, altered, is_candidate, make_plan, span_gate
from pydantic import ValidationError

from specdecode_operator.gates.course import Cells, Trays, follow
from specdecode_operator.gates.decide import first_decision
from specdecode_operator.gates.estimate import Sides
from specdecode_operator.gates.plan import Noise, Plan
from specdecode_operator.gates.power import Run, power, smallest_detectable
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Outcome, Reason

SINCE = START - 500
FRESH = make_plan(fresh={"since": SINCE, "pods": 4})
RESTARTED = frozenset(f"uid-s{place}" for place in range(4))


def cold(
    by: float, *, stable: float | None = None, restarted: frozenset[str] = RESTARTED
) -> Callable[[Sample], Iterable[Sample]]:
    """Young pods of both arms are slower by so much; those of stable by `stable`, if it is given."""

    def change(sample: Sample) -> Iterable[Sample]:
        young = sample.pod_uid in restarted
        slower = by if is_candidate(sample) else (by if stable is None else stable) * young
        since = {"start_time": SINCE + 100} if young or is_candidate(sample) else {}
        factor = 1.0 if sample.metric == PROBE else math.exp(slower)
        return (altered(sample, sum=sample.sum * factor, **since),)

    return change


def test_what_a_short_uptime_costs_fails_against_all_and_passes_against_restarted_pods() -> None:
    assert World().verdict(make_plan(), cold(0.04, restarted=frozenset())).outcome is Outcome.FAIL
    verdict = World().verdict(FRESH, cold(0.04))
    assert verdict.reason is Reason.WITHIN_MARGIN, verdict.sentence
    assert (verdict.gates[0].pods.stable, verdict.gates[0].pods.candidate) == (4, 4)
    assert verdict.gates[0].estimate == pytest.approx(0, abs=0.004)


def test_a_regression_beyond_the_margin_still_fails() -> None:
    verdict = World(effect=0.04).verdict(FRESH, cold(0.04))
    assert verdict.reason is Reason.BEYOND_MARGIN, verdict.sentence


def test_what_is_cold_on_both_sides_is_no_catastrophe_and_a_doubled_span_is() -> None:
    assert World().verdict(FRESH, cold(0.2)).outcome is Outcome.PASS
    verdict = World(effect=0.7).verdict(FRESH, cold(0.2))
    assert (verdict.reason, verdict.decided_at) == (Reason.CATASTROPHE, 3)


@pytest.mark.parametrize("odd", [0.5, -0.5])
def test_restarted_pods_that_are_odd_decide_nothing(odd: float) -> None:
    verdict = World().verdict(FRESH, cold(odd / 2, stable=odd))
    assert verdict.reason is Reason.BASELINE_APART, verdict.sentence


def test_a_run_whose_stable_pods_were_never_restarted_decides_nothing() -> None:
    verdict = World().verdict(FRESH, cold(0.0, restarted=frozenset()))
    assert verdict.reason is Reason.FEW_PODS, verdict.sentence


def test_a_restarted_pod_whose_windows_are_lost_is_not_replaced_by_an_old_one() -> None:
    lost = frozenset(sorted(RESTARTED)[:2])

    def change(sample: Sample) -> Iterable[Sample]:
        (young,) = cold(0.0)(sample)
        return (altered(young, flags=("gap",)) if sample.pod_uid in lost else young,)

    assert World().verdict(FRESH, change).outcome is not Outcome.PASS


def test_young_pods_of_both_arms_may_be_on_nodes_without_history_where_there_is_a_surge() -> None:
    def moved(sample: Sample) -> Iterable[Sample]:
        (young,) = cold(0.0)(sample)
        spare = {"node": f"spare-{sample.pod_uid}"} if young.start_time > SINCE else {}
        return (altered(young, **spare),)

    surge = FRESH.model_copy(update={"unseen_trays": True})
    assert World().verdict(surge, moved).outcome is Outcome.PASS
    assert World().verdict(FRESH, moved).reason is Reason.FOREIGN_SERIES


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fresh": {"since": SINCE, "pods": 13}}, "at most stable.pods"),
        (
            {
                "fresh": {"since": SINCE, "pods": 4},
                "gates": [span_gate(tracking={"weight": 0.75, "startSpread": 0.004, "starts": 9})],
            },
            "tracking isn't allowed",
        ),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        make_plan(**changes)


def test_few_stable_pods_tell_less_where_some_were_restarted() -> None:
    plan = make_plan(5, 1, [span_gate(noise={"between": 1e-5, "longRun": 1e-4, "starts": 5, "windowSd": 0.01})])
    assert plan.spread_pods == 5
    some = plan.model_copy(update={"fresh": FRESH.fresh and FRESH.fresh.model_copy(update={"pods": 1})})
    assert some.spread_pods == 4
    verdict = World().verdict(some, cold(0.0, restarted=frozenset({"uid-s0"})))
    assert verdict.reason is Reason.UNDERPOWERED
    assert "1 of them restarted" in verdict.sentence


def test_it_costs_power_and_the_sentence_says_what_is_compared() -> None:
    noise = Noise(between=1e-5, long_run=1e-4, starts=40, window_sd=0.01)
    run = Run(noise=noise, margin=0.02, stable=12, candidate=4, windows=80)
    young = Run(noise=noise, margin=0.02, stable=12, candidate=4, windows=80, fresh=True)
    ratio = smallest_detectable(young, 80) / smallest_detectable(run, 80)
    assert ratio == pytest.approx(math.sqrt((1 / 4 + 1 / 4) / (1 / 12 + 1 / 4)), rel=0.02)
    assert "4 restarted of 12 stable and 4 candidate slots" in power(young).sentence
    assert power(Run(noise=noise, margin=0.01, stable=15, candidate=1, windows=80, fresh=True)).slots == 5


@pytest.mark.parametrize(("effect", "wrong"), [(0.02, ("passed", "failed")), (0.0, ("failed",))])
def test_it_errs_no_more_often_than_it_may(effect: float, wrong: tuple[str, ...]) -> None:
    """At the margin, and with no difference: 1% each; one candidate slot and one restarted, both 3% colder."""
    plan, runs = make_plan(11, 1, windows={"start": START, "seconds": 30.0, "planned": 16}), 1000
    plan = Plan.model_validate({**plan.model_dump(by_alias=True), "fresh": {"since": SINCE, "pods": 1}})
    rng = np.random.default_rng(20260301)
    pods, windows = 12, 16
    young = np.array([place in (0, pods - 1) for place in range(pods)])
    stable = np.arange(pods) < pods - 1
    level = rng.normal(0, 0.003, (runs, pods, 1)) + 0.03 * young[:, None] + effect * ~stable[:, None]
    values = (level + rng.normal(0, 0.005, (runs, pods, windows)))[..., None].repeat(2, axis=-1)
    control = rng.normal(0, 0.002, (runs, pods, windows, 1))
    steady = np.zeros(pods)
    cells = Cells(values, np.full(values.shape, 400.0), np.array([0.5, 0.5]), control, np.ones(1))
    course = follow(
        plan, plan.gates[0], Sides(stable, stable & young), Trays(steady, steady, steady, steady + 0.01), cells
    )
    decision = first_decision(course, stable, np.ones(windows, bool))
    assert all(getattr(decision, outcome).mean() <= 0.02 for outcome in wrong)
