"""Verdicts: kinds of gates, several gates, what is reported, and that the first crossing is final."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judged import LENGTH, PROBE, World, altered, is_candidate, length_gate, make_plan, span_gate, window_of

from specdecode_operator.gates.judge import OUTCOMES, judge, outcome_of
from specdecode_operator.gates.plan import step_errors
from specdecode_operator.gates.sentences import MEANING
from specdecode_operator.gates.verdict import Outcome, Reason, as_json

PLAN = make_plan()


@pytest.mark.parametrize(
    ("kind", "effect", "reason"),
    [
        ("nonInferior", 0.0, Reason.WITHIN_MARGIN),
        ("nonInferior", -0.5, Reason.WITHIN_MARGIN),
        ("nonInferior", 0.02, Reason.UNDECIDED),
        ("nonInferior", 0.03, Reason.BEYOND_MARGIN),
        ("equivalent", 0.0, Reason.WITHIN_MARGIN),
        ("equivalent", 0.03, Reason.BEYOND_MARGIN),
        ("equivalent", -0.03, Reason.BEYOND_MARGIN),
        ("superior", -0.03, Reason.BETTER),
        ("superior", -0.01, Reason.NEUTRAL),
        ("superior", 0.0, Reason.NEUTRAL),
        ("superior", 0.01, Reason.BEYOND_MARGIN),
    ],
)
def test_each_kind_of_gate_decides_by_its_own_rule(kind: str, effect: float, reason: Reason) -> None:
    verdict = World(effect=effect).verdict(make_plan(gates=[span_gate(kind=kind)]))
    assert verdict.reason is reason, verdict.sentence
    assert verdict.gates[0].estimate == pytest.approx(effect, abs=0.004)


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (0.0, Reason.WITHIN_MARGIN),
        (-0.07, Reason.BEYOND_MARGIN),
        (0.07, Reason.BEYOND_MARGIN),
        (-1.0, Reason.CATASTROPHE),
    ],
)
def test_acceptance_is_judged_in_both_directions(effect: float, reason: Reason) -> None:
    verdict = World(length_effect=effect).verdict(make_plan(gates=[span_gate(), length_gate()]))
    assert verdict.reason is reason, verdict.sentence


def test_an_acceptance_gain_passes_where_only_loss_is_harm() -> None:
    gates = [span_gate(), length_gate(kind="nonInferior")]
    assert World(length_effect=0.2).verdict(make_plan(gates=gates)).outcome is Outcome.PASS
    assert World(length_effect=-0.1).verdict(make_plan(gates=gates)).outcome is Outcome.FAIL


def test_acceptance_is_a_ratio_of_sums_not_a_mean_of_window_ratios() -> None:
    """Windows with few drafts and short acceptance weigh by their drafts: the pods' true lengths are the same."""

    def uneven(sample: Any) -> Any:
        if sample.metric != LENGTH:
            return (sample,)
        few = window_of(sample) % 2 == (0 if is_candidate(sample) else 1)
        count, noise = 500.0 if few else 9500.0, sample.sum / sample.count / 3
        return (altered(sample, count=count, sum=count * noise * (1.5 if few else 3.0)),)

    verdict = World().verdict(make_plan(gates=[span_gate(), length_gate()]), uneven)
    assert verdict.outcome is Outcome.PASS
    assert verdict.gates[1].estimate == pytest.approx(0, abs=0.002)


def test_an_acceptance_gate_needs_its_requests() -> None:
    gates = [span_gate(), length_gate(requests=10_000)]
    verdict = World().verdict(make_plan(gates=gates))
    assert verdict.reason is Reason.FEW_REQUESTS
    assert verdict.gates[0].outcome is Outcome.PASS


def test_a_short_acceptance_catastrophe_needs_requests_running() -> None:
    def idle(sample: Any) -> Any:
        return (altered(sample, count=sample.count / 6, sum=sample.sum / 6) if sample.metric == LENGTH else sample,)

    verdict = World(length_effect=-1.0).verdict(make_plan(gates=[span_gate(), length_gate()]), idle)
    assert verdict.reason is Reason.BEYOND_MARGIN


def test_pass_needs_every_gate_and_fail_only_one() -> None:
    other = span_gate(name="probe-as-span", span={"metric": PROBE, "step": "", "minCount": 5}, margin=0.005)
    other |= {"control": {"span": {"metric": LENGTH, "step": ""}}, "noise": other["noise"] | {"between": 1e-6}}
    verdict = World(control_effect=0.009).verdict(make_plan(gates=[span_gate(margin=0.05), other]))
    assert [gate.outcome for gate in verdict.gates] == [Outcome.PASS, Outcome.FAIL]
    assert verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize("effect", [0.7, 1.5])
def test_a_doubled_span_fails_in_its_third_window(effect: float) -> None:
    verdict = World(effect=effect).verdict(PLAN)
    assert (verdict.reason, verdict.decided_at) == (Reason.CATASTROPHE, 3)


def test_a_slow_machine_is_no_catastrophe() -> None:
    verdict = World(effect=0.7, control_effect=0.5).verdict(PLAN)
    assert verdict.outcome is not Outcome.FAIL


def test_a_catastrophe_counts_while_another_gate_is_still_open() -> None:
    def late(sample: Any) -> Any:
        slow = is_candidate(sample) and sample.metric not in (LENGTH, PROBE) and window_of(sample) >= 20
        return (altered(sample, sum=sample.sum * 2) if slow else sample,)

    gates = [span_gate(), length_gate(requests=10_000)]
    verdict = World().verdict(make_plan(gates=gates), late)
    assert (verdict.outcome, verdict.reason, verdict.decided_at) == (Outcome.FAIL, Reason.CATASTROPHE, 23)


def test_an_early_step_can_stop_and_not_pass() -> None:
    guard = make_plan(role="guard")
    assert World().verdict(guard).reason is Reason.GUARDED
    assert World(effect=0.03).verdict(guard).outcome is Outcome.FAIL


def test_the_first_crossing_is_final_and_later_windows_change_nothing() -> None:
    samples = World(effect=0.01).samples(PLAN)
    whole = judge(PLAN, samples)
    assert whole.decided_at is not None
    for through in (whole.decided_at, whole.decided_at + 1, 40):
        assert judge(PLAN, samples, through=through) == whole
    before = judge(PLAN, samples, through=whole.decided_at - 1)
    assert (before.outcome, before.reason) == (Outcome.INCONCLUSIVE, Reason.MEASURING)


def test_nothing_is_decided_before_the_first_look() -> None:
    assert judge(PLAN, World().samples(PLAN, 9)).reason is Reason.MEASURING


def test_more_windows_than_planned_are_not_asked_for() -> None:
    samples = World(effect=0.02).samples(PLAN)
    assert judge(PLAN, samples, through=1000) == judge(PLAN, samples)


def test_the_steps_of_a_run_share_its_error() -> None:
    guards = [step_errors(0.01, 0.01, role="guard", guards=2) for _ in range(2)]
    last = step_errors(0.01, 0.01, role="decide", guards=2)
    assert sum(each.fail for each in (*guards, last)) == pytest.approx(0.01)
    assert (last.passing, last.fail) == (0.01, pytest.approx(0.008))
    assert step_errors(0.01, 0.01, role="decide", guards=0).fail == 0.01


def test_the_verdict_says_what_it_stands_on() -> None:
    verdict = World(requests=50.0).verdict(PLAN)
    gate = verdict.gates[0]
    assert gate.interval is not None
    assert gate.estimate is not None
    assert gate.smallest_detectable is not None
    assert gate.control is not None
    assert gate.interval[0] < gate.estimate < gate.interval[1] < gate.margin
    assert (gate.pods.stable, gate.pods.candidate) == (12, 4)
    assert (gate.windows, gate.planned) == (verdict.decided_at, 40)
    assert gate.requests.candidate == 50 * 4 * gate.windows
    assert gate.kept.stable == 12 * gate.windows
    assert len(gate.looks) == gate.windows
    assert verdict.plan_digest.startswith("sha256:")
    for told in ("Pass", "margin 2%", "12 stable and 4 candidate pods"):
        assert told in verdict.sentence


def test_the_verdict_is_json_without_anything_that_json_cannot_say() -> None:
    text = json.dumps(as_json(World().verdict(PLAN)), allow_nan=False)
    assert json.loads(text)["gates"][0]["decidedAt"] == 10


def test_every_reason_has_one_outcome_and_those_of_a_gate_a_sentence() -> None:
    assert all(outcome_of(reason) in Outcome for reason in Reason)
    assert set(OUTCOMES) - {Reason.CANDIDATE_CRASHED} <= set(MEANING)


def test_a_tray_s_own_baseline_takes_out_what_the_tray_always_was() -> None:
    tracking = {"weight": 1.0, "startSpread": 0.001, "starts": 8}
    gate = span_gate(tracking=tracking)
    data = make_plan(gates=[gate]).model_dump(by_alias=True)
    for tray in data["trays"]:
        if tray["arm"] == "candidate":
            tray["baseline"]["drafter"]["mean"] = 0.04
    plan = make_plan(gates=[gate], trays=data["trays"])
    slow_trays = World(effect=0.04)
    assert slow_trays.verdict(plan).outcome is Outcome.PASS
    assert slow_trays.verdict(make_plan()).outcome is Outcome.FAIL


def test_beta_subtracts_the_control() -> None:
    gate = span_gate(control={"span": {"metric": PROBE, "step": "", "minCount": 5}, "beta": 1}, margin=0.04)
    verdict = World(effect=0.03, control_effect=0.015).verdict(make_plan(gates=[gate]))
    assert verdict.gates[0].estimate == pytest.approx(0.015, abs=0.003)
    assert verdict.gates[0].control is not None
    assert verdict.gates[0].control.raw_estimate == pytest.approx(0.03, abs=0.003)


def test_a_run_that_looks_calmer_than_its_calibration_is_not_believed_whole() -> None:
    """Of many looks some see pods that agree by luck; at thin traffic that made two in a hundred wrong passes."""
    calm, loud = (span_gate(noise={"between": v, "longRun": 0, "starts": 40, "windowSd": 0.01}) for v in (0, 1e-3))
    narrow, wide = (World().verdict(make_plan(gates=[gate])).gates[0].looks[-1] for gate in (calm, loud))
    assert narrow.upper is not None
    assert wide.upper is not None
    assert wide.upper > narrow.upper + 0.02


def test_a_single_tracked_slot_is_less_certain_by_its_new_start() -> None:
    def upper(spread: float, slots: int) -> float:
        gate = span_gate(tracking={"weight": 0.75, "startSpread": spread, "starts": 8}, margin=0.05)
        found = World(requests=100).verdict(make_plan(12, slots, [gate], role="guard")).gates[0].looks[-1].upper
        assert found is not None
        return found

    assert upper(0.01, 1) > upper(0.0, 1) + 0.01
    assert upper(0.01, 4) < upper(0.01, 1)
