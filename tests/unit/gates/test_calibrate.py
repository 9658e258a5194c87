"""Calibration: noise found as it was put in, and what a plan of that noise could find."""

from __future__ import annotations

import math

import numpy as np
import pytest
from judged import PROBE, SECONDS, SPAN, START, World, altered, make_plan

from specdecode_operator.gates.calibrate import (
    TooLittleHistory,
    calibrate,
    long_run_variance,
    noise_of,
    slots_by_median,
)
from specdecode_operator.gates.intake import take_in
from specdecode_operator.gates.plan import MAX_WINDOWS, Baseline, Noise, Plan, Tracking
from specdecode_operator.gates.power import Run, power, requests_needed, smallest_detectable, standard_error


def autoregressive(rng: np.random.Generator, shape: tuple[int, int], rho: float, sd: float) -> np.ndarray:
    found = np.zeros(shape)
    found[:, 0] = rng.normal(0, sd, shape[0])
    for window in range(1, shape[1]):
        found[:, window] = rho * found[:, window - 1] + rng.normal(0, sd * math.sqrt(1 - rho**2), shape[0])
    return found


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_the_long_run_variance_sees_through_autocorrelation(rho: float) -> None:
    rng = np.random.default_rng(3)
    found = long_run_variance(autoregressive(rng, (60, 240), rho, 0.01))
    assert found == pytest.approx(1e-4 * (1 + rho) / (1 - rho), rel=0.15)


def test_missing_windows_do_not_shrink_it() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 0.01, (60, 240))
    scores[rng.random(scores.shape) < 0.2] = np.nan
    assert long_run_variance(scores) == pytest.approx(1e-4, rel=0.15)


def test_the_variance_between_pods_is_not_promised_smaller_than_it_is() -> None:
    rng = np.random.default_rng(5)
    found = [
        noise_of(rng.normal(0, 0.006, (12, 1)) + rng.normal(0, 0.01, (12, 200))).between > 0.006**2 for _ in range(200)
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.09)


def history(windows: int = 130) -> tuple[Plan, World]:
    plan = make_plan(windows={"start": START, "seconds": SECONDS, "planned": windows})
    return plan, World(pod_sd=0.004)


def test_calibration_finds_noise_and_baselines_from_stable_samples() -> None:
    plan, world = history()
    samples = [sample for sample in world.samples(plan) if sample.revision == "old"]
    found = calibrate(take_in(plan, samples), plan.gates[0])
    assert (found.pods, found.windows, found.beta) == (12, 130, 0)
    assert set(found.baselines) == {f"node-s{place}" for place in range(12)}
    assert math.sqrt(found.noise.between) == pytest.approx(0.005, rel=0.5)
    assert found.noise.window_sd == pytest.approx(0.003 / math.sqrt(2), rel=0.2)
    assert all(baseline.control_mad > 0 for baseline in found.baselines.values())


def test_beta_is_1_where_the_control_follows_the_pod() -> None:
    plan, world = history()
    offset = {f"uid-s{place}": math.exp(0.01 * ((place * 5) % 7)) for place in range(12)}
    samples = [
        altered(sample, sum=sample.sum * offset[sample.pod_uid]) if sample.metric in (SPAN, PROBE) else sample
        for sample in world.samples(plan)
        if sample.revision == "old"
    ]
    assert calibrate(take_in(plan, samples), plan.gates[0]).beta == 1


def test_a_short_history_is_refused_with_what_is_needed() -> None:
    plan, world = history(60)
    samples = [sample for sample in world.samples(plan) if sample.revision == "old"]
    with pytest.raises(TooLittleHistory, match=r"60 windows of 12 pods.*120 windows"):
        calibrate(take_in(plan, samples), plan.gates[0])


def test_slots_go_to_the_trays_nearest_the_median() -> None:
    baselines = {name: Baseline(mean=mean) for name, mean in [("a", 0.03), ("b", 0.001), ("c", 0.0), ("d", -0.01)]}
    assert slots_by_median(baselines, 2) == ["b", "c"]


# --- Power ------------------------------------------------------------------------------------------------------------

NOISY = Noise(between=0.006**2, long_run=3.3e-4, starts=16, window_sd=0.0135)


def run(stable: int, candidate: int, **changes: object) -> Run:
    return Run(**{"noise": NOISY, "margin": 0.02, "stable": stable, "candidate": candidate, "windows": 80, **changes})


def test_more_slots_and_more_time_find_less() -> None:
    assert smallest_detectable(run(12, 4), 80) < smallest_detectable(run(15, 1), 80)
    assert smallest_detectable(run(12, 4), 160) < smallest_detectable(run(12, 4), 80)


def test_a_strong_plan_says_so() -> None:
    found = power(run(12, 4))
    assert found.passes
    assert "that is enough" in found.sentence


def test_one_slot_that_no_duration_helps_is_told_how_many_slots_do() -> None:
    found = power(run(15, 1))
    assert not found.passes
    assert found.windows is None
    assert found.slots is not None
    assert smallest_detectable(run(16 - found.slots, found.slots), 80) <= 0.02
    assert "no duration will do" in found.sentence
    assert f"{found.slots} candidate slots" in found.sentence


def test_where_time_helps_the_fewest_windows_are_told() -> None:
    calm = Noise(between=0.002**2, long_run=0.05**2, starts=16, window_sd=0.02)
    short = run(12, 4, noise=calm, windows=40)
    found = power(short)
    assert found.windows is not None
    assert smallest_detectable(short, found.windows) <= 0.02 < smallest_detectable(short, found.windows - 1)
    minutes = math.ceil(found.windows * 30 / 60)
    assert f"{found.windows} windows ({minutes} minutes) would do" in found.sentence


def test_more_windows_than_a_plan_holds_have_to_be_longer_ones() -> None:
    restless = Noise(between=0.002**2, long_run=0.2**2, starts=16, window_sd=0.05)
    found = power(run(12, 4, noise=restless, windows=40))
    assert found.windows is not None
    assert found.windows > MAX_WINDOWS
    minutes = math.ceil(found.windows * 30 / 60)
    assert (
        f"{minutes} minutes would do, in windows of {math.ceil(60 * minutes / MAX_WINDOWS)} s or more" in found.sentence
    )


def test_where_neither_time_nor_slots_help_the_fleet_that_would_do_is_told() -> None:
    wild = NOISY.model_copy(update={"between": 0.02**2})
    found = power(run(5, 2, noise=wild))
    assert (found.windows, found.slots) == (None, None)
    assert found.fleet is not None
    halves = [run(total - total // 2, total // 2, noise=wild) for total in (found.fleet - 1, found.fleet)]
    few, enough = (smallest_detectable(each, 80) for each in halves)
    assert enough <= 0.02 < few
    assert f"no duration will do; nor any split of 7 slots, but a fleet of {found.fleet}" in found.sentence


def test_the_standard_error_is_the_contract_s() -> None:
    plain = run(12, 4)
    assert standard_error(plain, 80) == pytest.approx(
        math.sqrt((NOISY.between + NOISY.long_run / 80) * (1 / 12 + 1 / 4))
    )
    tracked = run(12, 4, tracking=Tracking(weight=0.75, start_spread=0.004, starts=8))
    extra = standard_error(tracked, 80) ** 2 - standard_error(plain, 80) ** 2
    assert extra == pytest.approx(2 * 0.75 * 0.004**2 / 4)


def test_without_degrees_of_freedom_nothing_can_be_found() -> None:
    assert math.isinf(smallest_detectable(run(2, 1, noise=NOISY.model_copy(update={"starts": 1})), 80))


@pytest.mark.parametrize(("margin", "requests"), [(0.05, 589), (0.02, 3680)])
def test_requests_needed_for_an_acceptance_gate(margin: float, requests: int) -> None:
    assert requests_needed(0.2, margin, stable=10**9, candidate=1) == requests
    assert requests_needed(0.2, margin, stable=4, candidate=4) == pytest.approx(2 * requests, abs=1)
