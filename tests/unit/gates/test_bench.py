"""The decision benchmark: seeded, and its judges decide as their rules say."""

from __future__ import annotations

import numpy as np
import pytest
from bench.gates import cell, table, wilson
from bench.rules import RULES, argo, flagger, ome
from bench.worlds import GPU, HOST, WORLDS, plan_for, simulate

LOW, HIGH = False, True


def test_the_same_seed_gives_the_same_table() -> None:
    first, again, other = (table(cell(GPU, (7, 1), 20, seed, RULES[:1])) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_clear_world_is_judged_right() -> None:
    row = cell(GPU, (12, 4), 20, 1, ())[0]
    assert row.false_abort[0] == 0
    assert row.passed["margin+2"][0] == 0
    assert row.failed["margin+2"][0] > 0.9
    assert row.doubled_in_three is not None
    assert row.doubled_in_three[0] == 1


@pytest.mark.parametrize("world", WORLDS, ids=[world.name for world in WORLDS])
def test_every_world_gives_traces_of_its_plan(world: object) -> None:
    assert isinstance(world, type(HOST))
    plan = plan_for(world, 5, 1, 0.02, 12)
    traces = simulate(world, plan, 3, np.random.default_rng(1))
    assert traces.cells.values.shape == (3, 6, 12, len(world.buckets))
    assert np.isfinite(traces.cells.values).mean() > 0.5
    moved = traces.with_effect(0.5).values - traces.cells.values
    assert np.nanmax(np.abs(moved[:, 5] - 0.5)) < 1e-12
    assert np.nanmax(np.abs(moved[:, :5])) == 0


def test_argo_fails_at_more_failures_than_its_limit() -> None:
    high = np.array([[HIGH, LOW, HIGH, LOW, LOW], [HIGH, LOW, LOW, LOW, HIGH]])
    found = argo(high, count=4, limit=1)
    assert found.aborted.tolist() == [True, False]
    assert found.promoted.tolist() == [False, True]
    assert found.minutes.tolist() == [3, 4]


def test_flagger_counts_failed_checks_until_its_threshold() -> None:
    high = np.array([[HIGH, LOW, LOW, LOW], [HIGH, LOW, HIGH, LOW]])
    found = flagger(high, steps=2, threshold=2)
    assert found.aborted.tolist() == [False, True]
    assert found.minutes.tolist() == [3, 3]


def test_ome_advances_at_the_first_passing_sample_of_each_step() -> None:
    high = np.array([[HIGH, LOW, HIGH, LOW], [HIGH, LOW, HIGH, HIGH]])
    found = ome(high, steps=2, limit=1)
    assert found.promoted.tolist() == [True, False]
    assert found.aborted.tolist() == [False, True]


def test_intervals_of_shares_hold_the_share_and_stay_within_0_and_1() -> None:
    assert wilson(0.0, 100)[1:] == pytest.approx((0.0, 0.037), abs=1e-3)
    share, low, high = wilson(0.5, 100)
    assert low < share < high
