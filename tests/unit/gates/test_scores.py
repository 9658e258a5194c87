"""Cells, scores and the control, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specdecode_operator.gates.catastrophe import running
from specdecode_operator.gates.control import beta_of, drift_limit, quiet, tray_baseline
from specdecode_operator.gates.estimate import Sides, difference, halves, pod_values, ratio_values
from specdecode_operator.gates.quantiles import added, quantile
from specdecode_operator.gates.scores import cell_scores, log_means, overlap, weights_of, window_scores

NAN = math.nan
STABLE = np.array([True, True, True, True, False])


def test_a_cell_needs_its_steps_and_a_time_above_zero() -> None:
    sums = np.array([1.0, 1.0, 0.0, NAN, math.inf, 1.0])
    counts = np.array([100.0, 99.0, 100.0, 100.0, 100.0, NAN])
    found = log_means(sums, counts, 100)
    assert found[0] == pytest.approx(math.log(0.01))
    assert np.isnan(found[1:]).all()


def column(*values: float) -> np.ndarray:
    """One window, one bucket: [pods, 1, 1]."""
    return np.array(values)[:, None, None]


def test_a_score_is_the_distance_from_the_stable_pods_mean() -> None:
    found = cell_scores(column(1, 2, 3, 6, 10), STABLE, expected=4)
    assert found[:, 0, 0].tolist() == [-2, -1, 0, 3, 7]


@pytest.mark.parametrize(
    ("cells", "expected", "there"),
    [
        ((1, 2, NAN, NAN, 5), 4, True),
        ((1, NAN, NAN, NAN, 5), 4, False),
        ((1, 2, NAN, NAN, 5), 5, False),
        ((1, NAN, NAN, NAN, 5), 1, False),
    ],
)
def test_a_reference_needs_half_of_the_stable_pods_and_two(
    cells: tuple[float, ...], expected: int, there: bool
) -> None:
    assert np.isfinite(cell_scores(column(*cells), STABLE, expected)[4, 0, 0]) == there


def test_a_window_needs_buckets_of_seventy_percent_of_the_weight() -> None:
    weights = np.array([0.7, 0.2, 0.1])
    scores = np.array([[[1.0, NAN, NAN]], [[NAN, 1.0, 1.0]], [[1.0, 4.0, NAN]]])
    found = window_scores(scores, weights)[:, 0]
    assert found[0] == 1.0
    assert np.isnan(found[1])
    assert found[2] == pytest.approx((0.7 * 1 + 0.2 * 4) / 0.9)


def test_weights_favour_buckets_that_both_arms_run() -> None:
    found = weights_of(np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.0, 0.5]))
    assert found.tolist() == [0.25, 0.0, 0.0]


def test_overlap_is_what_the_arms_shares_have_in_common() -> None:
    counts = np.zeros((2, 2, 2))
    counts[0, :, :] = [[10, 0], [0, 0]]
    counts[1, :, :] = [[10, 0], [0, 10]]
    assert overlap(counts, np.array([True, False])).tolist() == [1.0, 0.5]


def test_a_window_is_quiet_within_six_deviations_or_four_percent_of_the_tray_s_median() -> None:
    control = np.array([[0.039, 0.041, -0.041, NAN], [0.12, 0.18, -0.12, 0.0]])
    found = quiet(control, np.array([0.0, 0.03]), np.array([0.001, 0.0165]))
    assert found.tolist() == [[True, False, False, False], [True, False, False, True]]


def test_a_control_that_follows_the_pods_is_subtracted_and_no_other() -> None:
    rng = np.random.default_rng(1)
    pods = rng.normal(0, 0.01, (8, 1))
    touched = pods + rng.normal(0, 0.001, (8, 50))
    assert beta_of(touched, pods + rng.normal(0, 0.001, (8, 50))) == 1
    assert beta_of(touched, rng.normal(0, 0.01, (8, 1)) + rng.normal(0, 0.001, (8, 50))) == 0


@pytest.mark.parametrize(("margin", "limit"), [(0.01, 0.01), (0.02, 0.01), (0.05, 0.025)])
def test_drift_is_half_the_margin_or_one_percent(margin: float, limit: float) -> None:
    assert drift_limit(margin) == limit


def test_a_tray_s_baseline_knows_what_is_missing() -> None:
    mean, middle, away = tray_baseline(np.array([[1.0, 2.0, NAN, 9.0], [NAN, NAN, NAN, NAN]]))
    assert (mean[0], middle[0], away[0]) == (4.0, 2.0, 1.0)
    assert np.isnan([mean[1], middle[1], away[1]]).all()


def test_a_pod_counts_while_eighty_percent_of_its_windows_are_kept() -> None:
    kept = np.array([[True, True, True, True, False, False]])
    found = pod_values(np.array([[1.0, 1.0, 3.0, 3.0, 100.0, 100.0]]), kept)
    assert found.counted[0].tolist() == [True, True, True, True, True, False]
    assert found.values[0].tolist() == [1.0, 1.0, pytest.approx(5 / 3), 2.0, 2.0, 2.0]


def test_halves_split_the_windows_elapsed() -> None:
    sums = np.cumsum([[1.0, 2.0, 3.0, 4.0]], axis=-1)
    first, second = halves(sums, np.cumsum(np.ones((1, 4)), axis=-1))
    assert np.isnan(first[0, 0])
    assert (first[0, 3], second[0, 3]) == (1.5, 3.5)


def test_a_ratio_weighs_windows_by_their_drafts() -> None:
    kept = np.ones((1, 2), bool)
    found = ratio_values(np.array([[30.0, 100.0]]), np.array([[10.0, 100.0]]), kept)
    assert found.values[0, 1] == pytest.approx(math.log(130 / 110))


def test_the_difference_is_student_s() -> None:
    values = np.array([[1.0], [2.0], [3.0], [NAN], [7.0], [9.0]])
    stable = np.array([True, True, True, True, False, False])
    found = difference(values, np.ones((6, 1), bool), Sides.of(stable))
    assert (found.estimate[0], found.stable[0], found.candidate[0], found.degrees[0]) == (6.0, 3.0, 2.0, 3.0)
    assert found.variance[0] == pytest.approx((2 + 2) / 3)
    assert found.leverage[0] == pytest.approx(1 / 3 + 1 / 2)


def test_stable_pods_that_are_not_compared_tell_the_spread_alone() -> None:
    values = np.array([[1.0], [2.0], [3.0], [5.0], [6.0], [7.0], [9.0]])
    stable = np.array([True] * 5 + [False] * 2)
    restarted = np.array([False] * 3 + [True] * 2 + [False] * 2)
    found = difference(values, np.ones((7, 1), bool), Sides(stable, restarted))
    assert (found.estimate[0], found.stable[0], found.beside[0], found.degrees[0]) == (2.5, 2.0, 3.0, 4.0)
    assert found.variance[0] == pytest.approx((2 + 0.5 + 2) / 4)
    assert found.leverage[0] == pytest.approx(1)


def test_three_windows_running_are_those_that_there_were() -> None:
    beyond = np.array([True, True, False, True, True, False, True])
    there = np.array([True, True, True, True, True, False, True])
    assert running(beyond, there).tolist() == [False, False, False, False, False, False, True]


def test_quantiles_lie_in_their_bucket() -> None:
    buckets = {"1": 10.0, "4": 30.0, "16": 40.0, "+Inf": 40.0}
    assert quantile(buckets, 0.5) == pytest.approx(2.0)
    assert quantile(added([buckets, buckets]), 0.5) == pytest.approx(2.0)
    assert math.isnan(quantile({"1": 0.0, "+Inf": 5.0}, 0.5))
    for broken in ({}, {"1": 0.0}, {"x": 1.0}, {"1": 5.0, "2": 3.0}, {"1": NAN}):
        assert math.isnan(quantile(broken, 0.5))
