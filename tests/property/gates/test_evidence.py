"""What holds for all samples: order is nothing, scale is nothing, and evidence is never made out of its absence."""

from __future__ import annotations

import math
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judged import START, World, altered, length_gate, make_plan, span_gate

from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Outcome, Reason

PLAN = make_plan(
    6,
    2,
    [span_gate(), length_gate()],
    windows={"start": START, "seconds": 30.0, "planned": 14},
    traffic={"minRequests": 100},
)
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
WORLDS = {
    effect: World(effect=effect, pod_sd=0.0005, window_sd=0.001).samples(PLAN) for effect in (0.0, 0.02, 0.04, 1.0)
}
effects = st.sampled_from(sorted(WORLDS))
BROKEN: dict[str, Any] = {
    "nan": {"sum": math.nan},
    "inf": {"count": math.inf},
    "negative": {"count": -1.0},
    "zero": {"count": 0.0, "sum": 0.0},
    "flagged": {"flags": ("reset",)},
    "nan requests": {"requests": math.nan},
}


def shuffled(samples: list[Sample], seed: int) -> list[Sample]:
    found = list(samples)
    random.Random(seed).shuffle(found)
    return found


def test_the_worlds_are_worth_something() -> None:
    outcomes = {effect: judge(PLAN, samples).outcome for effect, samples in WORLDS.items()}
    assert outcomes == {0.0: Outcome.PASS, 0.02: Outcome.INCONCLUSIVE, 0.04: Outcome.FAIL, 1.0: Outcome.FAIL}


@few
@given(effects, st.integers())
def test_the_order_of_samples_changes_nothing(effect: float, seed: int) -> None:
    assert judge(PLAN, shuffled(WORLDS[effect], seed)) == judge(PLAN, WORLDS[effect])


@few
@given(effects, st.floats(1e-6, 1e6))
def test_the_unit_of_time_changes_nothing(effect: float, factor: float) -> None:
    scaled = [
        altered(sample, sum=sample.sum * factor) if "seconds" in sample.metric else sample for sample in WORLDS[effect]
    ]
    before, after = judge(PLAN, WORLDS[effect]), judge(PLAN, scaled)
    assert (after.outcome, after.reason, after.decided_at) == (before.outcome, before.reason, before.decided_at)


@few
@given(effects, st.sampled_from(sorted(BROKEN)), st.floats(0, 1), st.integers())
def test_broken_samples_never_turn_a_worse_candidate_into_a_pass(
    effect: float, kind: str, share: float, seed: int
) -> None:
    rng = random.Random(seed)
    hurt = [altered(s, **BROKEN[kind]) if rng.random() < share else s for s in WORLDS[effect]]
    verdict = judge(PLAN, hurt)
    if effect >= 0.02:
        assert verdict.outcome is not Outcome.PASS
    if verdict.outcome is Outcome.PASS:
        gates = verdict.gates
        assert all(gate.kept.stable >= 0.5 * 6 * gate.windows and gate.kept.candidate > 0 for gate in gates)


@few
@given(st.floats(0, 1), st.integers())
def test_dropping_samples_makes_no_pass_out_of_too_little(share: float, seed: int) -> None:
    rng = random.Random(seed)
    left = [sample for sample in WORLDS[0.0] if rng.random() > share]
    verdict = judge(PLAN, left)
    if verdict.outcome is Outcome.PASS:
        assert all(gate.pods.stable >= 5 and gate.pods.candidate == 2 for gate in verdict.gates)
        assert all(gate.windows >= 10 for gate in verdict.gates)
    assert verdict.outcome is not Outcome.FAIL


@few
@given(st.sampled_from(["old", "new"]), effects)
def test_one_arm_alone_decides_nothing(revision: str, effect: float) -> None:
    verdict = judge(PLAN, [sample for sample in WORLDS[effect] if sample.revision == revision])
    assert verdict.outcome not in (Outcome.PASS, Outcome.FAIL)


@few
@given(effects, st.integers(1, 14), st.integers(1, 14))
def test_a_verdict_that_was_reached_stays(effect: float, one: int, other: int) -> None:
    early, late = (judge(PLAN, WORLDS[effect], through=windows) for windows in sorted((one, other)))
    if early.decided_at is not None:
        assert late == early
    else:
        assert early.reason in (Reason.MEASURING, Reason.UNDECIDED, Reason.FEW_REQUESTS)


@few
@given(st.integers(0, len(WORLDS[0.0]) - 1), st.sampled_from(["revision", "node", "pod_uid", "window_start"]))
def test_a_single_sample_that_belongs_elsewhere_stops_the_run_or_is_alone(place: int, field: str) -> None:
    changes = {field: 1e9 if field == "window_start" else "elsewhere"}
    samples = [altered(sample, **changes) if n == place else sample for n, sample in enumerate(WORLDS[0.02])]
    assert judge(PLAN, samples).outcome in (Outcome.INVALID, Outcome.INCONCLUSIVE)
