"""A run is registered from the stable pods' history, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from judged import LENGTH, PROBE, SECONDS, SPAN, START, World, altered, make_plan

from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.plan import Arm
from specdecode_operator.gates.register import (
    HISTORY_WINDOWS,
    Asked,
    AskedGate,
    AskedStep,
    Unfit,
    few_slots,
    register,
    strata,
)
from specdecode_operator.gates.run import RunPlan, digest_of, text_of
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Outcome, Reason

DRAFTER = AskedGate("drafter", "drafterGpuSpan", "mean", "nonInferior", 0.02)
GUARD = AskedStep(1, (), 600.0, 2400.0, "Hold")
DECIDE = AskedStep(4, (), 600.0, 2400.0, "Hold")


def asked(pods: int = 16, **changes: Any) -> Asked:
    return replace(
        Asked(
            name="team/chat",
            run="0123456789",
            digest="sha256:" + "0" * 64,
            stable=Arm(revision="old", pods=pods),
            candidate=Arm(revision="new", pods=1),
            gates=(DRAFTER,),
            steps=(GUARD, DECIDE),
            window=SECONDS,
            alpha=0.01,
            power=0.95,
        ),
        **changes,
    )


def history(pods: int = 16, **world: Any) -> list[Sample]:
    plan = make_plan(pods, 1, windows={"start": START, "seconds": SECONDS, "planned": HISTORY_WINDOWS})
    return [sample for sample in World(**world).samples(plan) if sample.revision == "old"]


def registered(samples: Iterable[Sample], **changes: Any) -> RunPlan:
    return register(asked(**changes), samples, start=START, at=START + SECONDS * HISTORY_WINDOWS)


@pytest.fixture(scope="module")
def run() -> RunPlan:
    return registered(history())


def test_early_steps_guard_and_the_last_one_decides(run: RunPlan) -> None:
    assert [step.plan.role for step in run.steps] == ["guard", "decide"]
    assert [(step.plan.stable.pods, step.plan.candidate.pods) for step in run.steps] == [(15, 1), (12, 4)]
    assert [step.plan.windows.planned for step in run.steps] == [20, 80]
    assert sum(step.plan.errors.fail for step in run.steps) == pytest.approx(0.01)


def test_an_extension_is_part_of_the_plan_from_the_start() -> None:
    extended = registered(history(), steps=(replace(DECIDE, on_inconclusive="Extend"),))
    assert extended.steps[0].plan.windows.planned == 160


def test_noise_baselines_and_strata_come_from_the_history(run: RunPlan) -> None:
    gate = run.steps[-1].plan.gates[0]
    assert gate.noise.starts == 16
    assert gate.noise.window_sd > 0
    assert gate.span.strata == {"4": 0.5, "8": 0.5}
    assert gate.control is not None
    assert gate.control.span.metric == PROBE
    assert all("drafter" in tray.baseline for tray in run.steps[-1].plan.trays)
    assert len(run.steps[-1].plan.trays) == 16


def test_slots_go_to_the_trays_nearest_the_median_first(run: RunPlan) -> None:
    means = {tray.node: tray.baseline["drafter"].mean for tray in run.steps[-1].plan.trays}
    middle = sorted(means.values())[len(means) // 2]
    assert sorted(run.trays) == sorted(means)
    assert abs(means[run.trays[0]] - middle) < abs(means[run.trays[-1]] - middle)


def test_a_steps_plan_is_the_runs_with_its_start_and_can_be_judged(run: RunPlan) -> None:
    plan = run.steps[-1].starting(START)
    here = [altered(sample, node=f"node-s{place}") for place, sample in in_place(World().samples(plan))]
    assert judge(plan, here).outcome is Outcome.PASS


def in_place(samples: Iterable[Sample]) -> Iterable[tuple[int, Sample]]:
    """Samples with their pod's place in the fleet: the candidate sits on trays that stable pods had."""
    for sample in samples:
        letter, number = sample.pod_uid.removeprefix("uid-")[0], int(sample.pod_uid[5:])
        yield number + (12 if letter == "c" else 0), sample


def test_the_text_holds_everything_and_its_digest_moves_with_any_of_it(run: RunPlan) -> None:
    text = text_of(run)
    assert RunPlan.model_validate_json(text) == run
    other = run.model_copy(update={"settle_windows": 19})
    assert digest_of(text) != digest_of(text_of(other))


def test_too_few_slots_are_refused_with_how_many_would_do() -> None:
    with pytest.raises(Unfit, match=r"no duration will do|slots would do") as refused:
        registered(history(pod_sd=0.01), steps=(replace(DECIDE, slots=1),))
    assert refused.value.reason is Reason.UNDERPOWERED


def test_a_lower_power_that_is_asked_for_needs_less(run: RunPlan) -> None:
    gates = (replace(DRAFTER, margin=0.98 * run.detectable["drafter"]),)
    samples = history()
    with pytest.raises(Unfit):
        registered(samples, gates=gates)
    assert registered(samples, gates=gates, power=0.5).power == 0.5


def test_a_short_history_is_refused() -> None:
    short = [sample for sample in history() if sample.window_start < START + 60 * SECONDS]
    with pytest.raises(Unfit, match="let the stable revision serve longer") as refused:
        registered(short)
    assert refused.value.reason is Reason.UNDERPOWERED


def test_no_history_is_no_data() -> None:
    with pytest.raises(Unfit) as refused:
        registered([])
    assert refused.value.reason is Reason.NO_DATA


def test_a_history_with_two_series_of_one_pod_is_refused() -> None:
    samples = history()
    with pytest.raises(Unfit, match="history is unfit") as refused:
        registered([*samples, samples[0]])
    assert refused.value.reason is Reason.DUPLICATE_SERIES


def test_few_pods_without_a_noise_history_are_refused() -> None:
    with pytest.raises(Unfit, match="noise history") as refused:
        registered(history(4), pods=4, steps=(replace(DECIDE, slots=1),))
    assert refused.value.reason is Reason.UNDERPOWERED


@pytest.mark.parametrize(("pods", "slots", "enough"), [(1, 1, False), (2, 1, False), (3, 1, True), (16, 14, True)])
def test_at_least_two_slots_must_stay_stable(pods: int, slots: int, enough: bool) -> None:
    words = few_slots(asked(pods=pods, steps=(replace(DECIDE, slots=slots),)))
    assert (words == "") is enough
    assert enough or f"Raise spec.replicas to {slots + 2}" in words


def test_rare_batches_have_no_weight() -> None:
    rare = [altered(sample, batch="128", count=1.0) for sample in history(2) if sample.metric == SPAN]
    assert set(strata([*history(2), *rare], SPAN, "decode")) == {"4", "8"}


def test_the_acceptance_length_is_counted_by_requests_and_has_no_control() -> None:
    gate = AskedGate("acceptance", "acceptanceLength", "mean", "equivalent", 0.05)
    plan = registered(history(), gates=(gate,)).steps[-1].plan
    assert plan.gates[0].measure == "acceptance"
    assert plan.gates[0].worse == "lower"
    assert plan.gates[0].span.metric == LENGTH
    assert plan.gates[0].control is None
