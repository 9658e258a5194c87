"""Looks: spent error, and bounds that hold it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specdecode_operator.gates.looks import bounds, sequential_bounds, spent, t_bounds


def test_bounds_of_five_looks_are_the_published_ones() -> None:
    """O'Brien-Fleming-like spending, one-sided 2.5%, five equal looks: Lan and DeMets 1983."""
    found = sequential_bounds(0.025, (0.2, 0.4, 0.6, 0.8, 1.0))
    assert [round(bound, 3) for bound in found] == [4.877, 3.357, 2.680, 2.290, 2.031]


def test_all_error_is_spent_at_the_planned_end_and_none_at_first() -> None:
    assert spent(1.0, 0.01) == pytest.approx(0.01)
    assert spent(0.1, 0.01) < 1e-14


def test_a_look_that_may_spend_nothing_decides_nothing() -> None:
    assert math.isinf(bounds(0.01, 10, 80)[0])
    assert math.isfinite(bounds(0.01, 10, 80)[20])


def test_looking_after_every_window_errs_as_often_as_planned() -> None:
    rng = np.random.default_rng(7)
    first, planned, alpha = 10, 60, 0.05
    path = np.cumsum(rng.normal(size=(20_000, planned)), axis=1)
    z = path / np.sqrt(np.arange(1, planned + 1))
    crossed = (z[:, first - 1 :] > np.array(bounds(alpha, first, planned))).any(axis=1).mean()
    assert crossed == pytest.approx(alpha, abs=0.006)


def test_few_degrees_of_freedom_widen_the_bounds_and_none_closes_them() -> None:
    wide, narrow = t_bounds(0.01, 10, 40, 3), t_bounds(0.01, 10, 40, 100)
    assert all(few >= many for few, many in zip(wide, narrow, strict=True))
    assert narrow[-1] == pytest.approx(bounds(0.01, 10, 40)[-1], rel=0.05)
    assert set(t_bounds(0.01, 10, 40, 0)) == {math.inf}
