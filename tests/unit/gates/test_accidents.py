"""What could pass wrongly, each accident alone on a run that would otherwise pass: never Pass, and the reason said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from judged import (
    LENGTH,
    PROBE,
    SECONDS,
    SPAN,
    STRATA,
    World,
    altered,
    is_candidate,
    length_gate,
    make_plan,
    plan_data,
    row,
    span_gate,
    window_of,
)

from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Outcome, Reason, Verdict

Change = Callable[[Sample], Iterable[Sample]]

QUIET = World()
PLAN = make_plan(gates=[span_gate(), length_gate()])


def test_the_undisturbed_run_passes() -> None:
    assert QUIET.verdict(PLAN).outcome is Outcome.PASS


def only(where: Callable[[Sample], bool], change: Change) -> Change:
    return lambda sample: change(sample) if where(sample) else (sample,)


def candidate_from(window: int) -> Callable[[Sample], bool]:
    return lambda sample: is_candidate(sample) and window_of(sample) >= window


def early(sample: Sample) -> bool:
    return window_of(sample) < 9


def gone(_: Sample) -> Iterator[Sample]:
    return iter(())


def flagged(flag: str) -> Change:
    return lambda sample: (altered(sample, flags=(flag,)),)


def with_numbers(**numbers: Any) -> Change:
    return lambda sample: (altered(sample, **numbers),)


def twice(sample: Sample) -> Iterable[Sample]:
    return sample, sample


def everything(_: Sample) -> bool:
    return True


def shifted(sample: Sample, seconds: float) -> Sample:
    return altered(sample, window_start=sample.window_start + seconds, window_end=sample.window_end + seconds)


def with_steps(sample: Sample, count: float) -> Sample:
    """More or fewer steps of the same mean."""
    return altered(sample, count=count, sum=count * sample.sum / sample.count)


def of_pod(uid: str) -> Callable[[Sample], bool]:
    return lambda sample: sample.pod_uid == uid


ACCIDENTS: dict[str, tuple[Change, Reason]] = {
    "no data at all": (only(everything, gone), Reason.NO_DATA),
    "the candidate is silent": (only(is_candidate, gone), Reason.ARM_SILENT),
    "stable is silent": (only(lambda s: not is_candidate(s), gone), Reason.NO_DATA),
    "NaN counts": (only(is_candidate, with_numbers(count=math.nan)), Reason.ARM_SILENT),
    "infinite sums": (only(is_candidate, with_numbers(sum=math.inf)), Reason.ARM_SILENT),
    "every window reset": (only(is_candidate, flagged("reset")), Reason.ARM_SILENT),
    "a counter that fell": (only(is_candidate, with_numbers(count=-5.0)), Reason.ARM_SILENT),
    "every window a scrape gap": (only(is_candidate, flagged("gap")), Reason.ARM_SILENT),
    "stale samples": (only(everything, flagged("stale")), Reason.NO_DATA),
    "duplicate series": (only(of_pod("uid-c0"), twice), Reason.DUPLICATE_SERIES),
    "series of another revision": (
        only(of_pod("uid-s3"), with_numbers(revision="third")),
        Reason.FOREIGN_SERIES,
    ),
    "series of a node that isn't in the plan": (
        only(of_pod("uid-s3"), with_numbers(node="elsewhere")),
        Reason.FOREIGN_SERIES,
    ),
    "the candidate on a tray planned for stable": (
        only(of_pod("uid-c0"), with_numbers(node="node-s0")),
        Reason.FOREIGN_SERIES,
    ),
    "one pod with two revisions": (
        only(
            lambda s: s.pod_uid == "uid-s0" and s.metric == PROBE,
            with_numbers(revision="new", node="node-c0", manifest_digest=None),
        ),
        Reason.FOREIGN_SERIES,
    ),
    "engines that attest another manifest": (
        only(is_candidate, with_numbers(manifest_digest="sha256:else")),
        Reason.MANIFEST_MISMATCH,
    ),
    "device spans taken at different intervals": (
        lambda s: (altered(s, sample_every=8 if is_candidate(s) else 16),),
        Reason.SAMPLING_DIFFERS,
    ),
    "the candidate's process restarted": (
        only(candidate_from(5), lambda s: (altered(s, start_time=s.window_start - 400),)),
        Reason.CANDIDATE_RESTARTED,
    ),
    "the candidate's pod replaced": (
        only(
            lambda s: s.pod_uid == "uid-c1" and window_of(s) >= 5,
            with_numbers(pod_uid="uid-c9"),
        ),
        Reason.CANDIDATE_RESTARTED,
    ),
    "a clock that jumps": (
        only(
            candidate_from(5), lambda s: (altered(s, window_start=s.window_start + 11, window_end=s.window_end + 11),)
        ),
        Reason.CLOCK_JUMP,
    ),
    "a window of the wrong length": (
        only(of_pod("uid-s0"), lambda s: (altered(s, window_end=s.window_end + SECONDS),)),
        Reason.CLOCK_JUMP,
    ),
    "a process that started after its window": (
        only(is_candidate, lambda s: (altered(s, start_time=s.window_end + 3600),)),
        Reason.CLOCK_JUMP,
    ),
    "zero drafts": (
        only(lambda s: s.metric == LENGTH, with_numbers(count=0.0, sum=0.0)),
        Reason.NO_DATA,
    ),
    "no tokens on the candidate": (
        only(lambda s: s.metric == LENGTH and is_candidate(s), with_numbers(sum=0.0)),
        Reason.ARM_SILENT,
    ),
    "too few steps a window": (only(is_candidate, with_numbers(count=99.0)), Reason.ARM_SILENT),
    "too few requests": (lambda s: (altered(s, requests=1.0),), Reason.FEW_REQUESTS),
    "sticky traffic": (
        only(is_candidate, lambda s: (altered(s, requests=35.0),)),
        Reason.TRAFFIC_SHARE,
    ),
    "the candidate runs other batches": (
        lambda s: (with_steps(s, 1e5) if s.batch == ("8" if is_candidate(s) else "4") else s,),
        Reason.UNBALANCED_LOAD,
    ),
    "slow windows of the candidate are lost": (
        only(lambda s: is_candidate(s) and window_of(s) % 6 == 2, gone),
        Reason.ASYMMETRIC_LOSS,
    ),
    "one candidate pod of four dies with its slow samples": (
        only(lambda s: s.pod_uid == "uid-c1" and window_of(s) >= 3, gone),
        Reason.ASYMMETRIC_LOSS,
    ),
    "most stable pods can't be read": (
        only(lambda s: not is_candidate(s) and s.pod_uid > "uid-s3" and window_of(s) > 3, flagged("gap")),
        Reason.FEW_PODS,
    ),
    "the control missing on the candidate": (
        only(lambda s: is_candidate(s) and s.metric == PROBE, gone),
        Reason.ARM_SILENT,
    ),
    "samples after the planned end and nothing decided": (
        lambda s: (shifted(s, 35 * SECONDS),),
        Reason.OUTSIDE_PLAN,
    ),
}


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_an_accident_never_passes_and_is_named(accident: str) -> None:
    change, reason = ACCIDENTS[accident]
    verdict = QUIET.verdict(PLAN, change)
    assert verdict.outcome is not Outcome.PASS
    assert reason in {verdict.reason, *(gate.reason for gate in verdict.gates)}, verdict.sentence


# --- Simpson's paradox, and a single bucket ---------------------------------------------------------------------------


def mixed(where: Callable[[Sample], bool], share_of_8: float) -> Change:
    """Steps moved between the batch buckets; the times of each bucket stay."""

    def change(sample: Sample) -> Iterable[Sample]:
        if sample.metric != SPAN or not where(sample):
            return (sample,)
        return (with_steps(sample, 1000 * (share_of_8 if sample.batch == "8" else 1 - share_of_8)),)

    return change


def both(first: Change, second: Change) -> Change:
    return lambda sample: (new for middle in first(sample) for new in second(middle))


def test_a_true_slowdown_is_seen_though_the_candidate_runs_smaller_batches() -> None:
    mix = both(mixed(is_candidate, 0.35), mixed(lambda s: not is_candidate(s), 0.65))
    slower = QUIET.but(effect=0.06)
    totals = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for sample in (new for old in slower.samples(PLAN) for new in mix(old) if new.metric == SPAN):
        totals[is_candidate(sample)][0] += sample.sum
        totals[is_candidate(sample)][1] += sample.count
    pooled = math.log((totals[True][0] / totals[True][1]) / (totals[False][0] / totals[False][1]))
    assert pooled < 0, "pooled over batches it looks like a gain"
    verdict = slower.verdict(PLAN, mix)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.BEYOND_MARGIN)
    assert verdict.gates[0].estimate == pytest.approx(0.06, abs=0.005)


def test_a_regression_in_one_bucket_is_not_hidden_by_the_others() -> None:
    def change(sample: Sample) -> Iterable[Sample]:
        if not is_candidate(sample) or sample.metric != SPAN:
            return (sample,)
        return (altered(sample, sum=sample.sum * (1.12 if sample.batch == "8" else 0.88)),)

    verdict = QUIET.but(seed=3).verdict(PLAN, change)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.BUCKET_BEYOND_MARGIN)
    assert verdict.gates[0].estimate is not None
    assert verdict.gates[0].estimate < 0, "over all buckets it looks like a gain"


# --- Controls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [0.012, -0.012])
def test_a_control_that_moved_apart_is_drift(moved: float) -> None:
    verdict = QUIET.but(control_effect=moved).verdict(PLAN)
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, Reason.DRIFT)
    control = verdict.gates[0].control
    assert control is not None
    assert control.drift == pytest.approx(moved, abs=0.003)
    assert control.raw_estimate is not None


def test_a_control_that_is_beside_itself_empties_the_arm_and_nothing_passes() -> None:
    verdict = QUIET.but(control_effect=0.3).verdict(PLAN)
    assert verdict.outcome is not Outcome.PASS
    assert verdict.gates[0].spent["control"].candidate == 160


def test_bursts_that_the_control_sees_are_excluded_and_counted() -> None:
    def burst(sample: Sample) -> Iterable[Sample]:
        if sample.pod_uid != "uid-c0" or window_of(sample) not in (1, 2):
            return (sample,)
        return (altered(sample, sum=sample.sum * 1.2),)

    verdict = QUIET.verdict(make_plan(), only(lambda s: s.metric != LENGTH, burst))
    assert verdict.outcome is Outcome.PASS
    assert verdict.gates[0].spent["control"].candidate == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gates": [span_gate(control=None)]}, Reason.NO_CONTROL),
        ({"touched": [PROBE]}, Reason.NO_CONTROL),
        ({"gates": [span_gate(control={"span": {"metric": SPAN, "strata": STRATA}})]}, Reason.NO_CONTROL),
        ({"trays": [{"node": f"node-{arm}{n}"} for arm in "sc" for n in range(12)]}, Reason.NO_CONTROL),
        ({"gatesVersion": 2}, Reason.PLAN_VERSION),
        ({"gates": [span_gate(tracking={"weight": 0.75, "startSpread": 0.004, "starts": 7})]}, Reason.UNDERPOWERED),
        ({"gates": [span_gate(margin=0.05, span={"metric": SPAN, "statistic": "p99"})]}, Reason.UNDERPOWERED),
    ],
)
def test_a_plan_that_can_show_nothing_is_invalid(changes: dict[str, Any], reason: Reason) -> None:
    verdict = QUIET.verdict(Plan.model_validate(plan_data(**changes)))
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, reason)


def test_few_stable_pods_need_a_registered_noise_history() -> None:
    thin = span_gate(noise={"between": 1e-5, "longRun": 1e-4, "starts": 19, "windowSd": 0.01})
    known = span_gate(noise={"between": 1e-5, "longRun": 1e-4, "starts": 20, "windowSd": 0.01})
    few = QUIET.but(requests=60.0)
    assert few.verdict(make_plan(3, 1, [thin])).reason is Reason.UNDERPOWERED
    assert few.verdict(make_plan(3, 1, [known])).outcome is Outcome.PASS
    assert few.verdict(make_plan(1, 3, [known])).reason is Reason.UNDERPOWERED


def test_a_registered_history_that_promises_too_much_gives_way_to_what_is_seen() -> None:
    nothing = span_gate(noise={"between": 0, "longRun": 0, "starts": 40, "windowSd": 0.01})
    apart = QUIET.but(requests=60.0, pod_sd=0.03)
    interval = apart.verdict(make_plan(3, 2, [nothing])).gates[0].interval
    assert interval is not None
    assert interval[1] - interval[0] > 0.1


# --- Warm-up ----------------------------------------------------------------------------------------------------------


def drifting(start: float, end: float) -> Change:
    """The candidate's span goes from `start` to `end` over the windows."""

    def change(sample: Sample) -> Iterable[Sample]:
        if not is_candidate(sample) or sample.metric != SPAN:
            return (sample,)
        here = start + (end - start) * window_of(sample) / 39
        return (altered(sample, sum=sample.sum * math.exp(here)),)

    return change


def test_a_candidate_that_gets_slower_does_not_pass_on_its_average() -> None:
    verdict = QUIET.verdict(make_plan(), drifting(-0.03, 0.03))
    assert verdict.reason is Reason.NOT_SETTLED


def test_a_candidate_that_is_still_warming_up_does_not_fail() -> None:
    verdict = QUIET.verdict(make_plan(), drifting(0.1, 0.0))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason is Reason.NOT_SETTLED


# --- Traffic ----------------------------------------------------------------------------------------------------------

PROMPTS, QUERIES, HITS, GATEWAY, DROPPED = "prompt_tokens", "queries", "hits", "gateway", "dropped"
ALL_CHECKS = {
    "promptTokens": PROMPTS,
    "prefixQueries": QUERIES,
    "prefixHits": HITS,
    "gatewayRequests": GATEWAY,
    "dropped": DROPPED,
}


def with_traffic(
    *, longer: float = 1.0, hits: float = 0.3, sent: float = 20.0, dropped: float = 0.0, without: str = ""
) -> Change:
    """Rows that say what the pods were asked; the arguments are the candidate's."""

    def change(sample: Sample) -> Iterable[Sample]:
        yield sample
        if sample.metric != PROBE:
            return
        new = is_candidate(sample)
        base = {"buckets": None, "requests": None, "step": "", "batch": ""}
        low = 100 * (longer if new else 1.0)
        buckets = {"50": 10.0, str(low): 40.0, str(2 * low): 70.0, "+Inf": 72.0}
        rows = {
            PROMPTS: {"count": 72.0, "sum": 1e4, "buckets": buckets},
            QUERIES: {"count": 1000.0, "sum": 0.0},
            HITS: {"count": 1000.0 * (hits if new else 0.3), "sum": 0.0},
            DROPPED: {"count": 800 * (dropped if new else 0.0), "sum": 0.0},
        }
        for metric, numbers in rows.items():
            if metric != without:
                yield altered(sample, **{**base, **numbers, "metric": metric})
        if sample.pod_uid in ("uid-s0", "uid-c0") and without != GATEWAY:
            pods = 4 if new else 12
            yield altered(sample, **base, metric=GATEWAY, pod_uid="", node="", count=pods * (sent if new else 20.0))

    return change


def traffic_verdict(change: Change) -> Verdict:
    return QUIET.verdict(make_plan(traffic=ALL_CHECKS), change)


def test_alike_traffic_passes_all_its_checks() -> None:
    assert traffic_verdict(with_traffic()).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_traffic(longer=1.6), Reason.PROMPTS_DIFFER),
        (with_traffic(longer=0.6), Reason.PROMPTS_DIFFER),
        (with_traffic(hits=0.45), Reason.PROMPTS_DIFFER),
        (with_traffic(sent=30.0), Reason.LOST_STEPS),
        (with_traffic(dropped=0.02), Reason.LOST_STEPS),
        (with_traffic(without=PROMPTS), Reason.PROMPTS_DIFFER),
        (with_traffic(without=QUERIES), Reason.PROMPTS_DIFFER),
        (with_traffic(without=HITS), Reason.PROMPTS_DIFFER),
        (with_traffic(without=GATEWAY), Reason.LOST_STEPS),
        (with_traffic(without=DROPPED), Reason.LOST_STEPS),
    ],
)
def test_arms_that_were_asked_different_things_cannot_be_compared(change: Change, reason: Reason) -> None:
    verdict = traffic_verdict(change)
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, reason)


# --- Time -------------------------------------------------------------------------------------------------------------


def test_samples_from_the_future_are_invalid() -> None:
    samples = QUIET.samples(PLAN)
    now = samples[0].window_end + 3 * SECONDS
    assert judge(PLAN, samples, now=now).reason is Reason.FUTURE_SAMPLES


def test_a_crash_of_the_candidate_fails() -> None:
    verdict = QUIET.verdict(PLAN, only(lambda s: s.pod_uid == "uid-c0" and window_of(s) == 4, flagged("crashed")))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.CANDIDATE_CRASHED)


def test_a_stable_pod_that_dies_takes_its_windows_and_no_more() -> None:
    verdict = QUIET.verdict(make_plan(), only(lambda s: s.pod_uid == "uid-s5" and window_of(s) > 2, gone))
    assert verdict.outcome is Outcome.PASS
    assert verdict.gates[0].pods.stable == 11


def test_a_restart_of_a_stable_pod_spends_the_window_it_happens_in() -> None:
    def restarted(sample: Sample) -> Iterable[Sample]:
        return (altered(sample, start_time=sample.window_start - 1 - SECONDS * (window_of(sample) - 4)),)

    verdict = QUIET.verdict(make_plan(), only(lambda s: s.pod_uid == "uid-s5" and window_of(s) >= 4, restarted))
    assert verdict.outcome is Outcome.PASS
    assert verdict.gates[0].spent["restart"].stable == 1


def test_a_fault_after_the_decision_changes_nothing() -> None:
    plan = make_plan()
    decided = QUIET.verdict(plan).decided_at
    assert decided is not None
    late = only(lambda s: window_of(s) > decided, twice)
    assert QUIET.verdict(plan, late).outcome is Outcome.PASS


def test_settling_windows_are_not_looked_at() -> None:
    plan = make_plan()
    settling = [shifted(sample, -40 * SECONDS) for sample in QUIET.but(effect=2.0).samples(plan)]
    assert judge(plan, [*settling, *QUIET.samples(plan)]).outcome is Outcome.PASS


def test_row_makes_the_mean_it_was_asked_for() -> None:
    common = {field: getattr(QUIET.samples(PLAN, 1)[0], field) for field in Sample.model_fields}
    common = {key: value for key, value in common.items() if key not in ("metric", "count", "sum", "batch", "step")}
    assert row(common, "m", 4, 0.5).sum == 2.0


@pytest.mark.parametrize(
    ("unseen", "control", "reason"),
    [
        (False, 0.0, Reason.FOREIGN_SERIES),
        (True, 0.0, Reason.WITHIN_MARGIN),
        (True, 0.015, Reason.DRIFT),
        (True, -0.015, Reason.DRIFT),
    ],
)
def test_a_candidate_on_a_node_without_history_is_held_against_the_fleets_control(
    unseen: bool, control: float, reason: Reason
) -> None:
    def moved(sample: Sample) -> Iterable[Sample]:
        return (altered(sample, node=f"spare-{sample.pod_uid}"),)

    verdict = QUIET.but(control_effect=control).verdict(make_plan(unseenTrays=unseen), only(is_candidate, moved))
    assert verdict.reason is reason, verdict.sentence


def test_a_stable_pod_on_a_node_without_history_is_foreign_all_the_same() -> None:
    def moved(sample: Sample) -> Iterable[Sample]:
        return (altered(sample, node="spare"),)

    first = only(lambda sample: sample.pod_uid == "uid-s0", moved)
    assert QUIET.verdict(make_plan(unseenTrays=True), first).reason is Reason.FOREIGN_SERIES
