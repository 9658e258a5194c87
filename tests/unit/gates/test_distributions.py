"""Tails and quantiles equal SciPy's, far into the tails that early looks need."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from specdecode_operator.gates import distributions as ours

DEGREES = [1, 2, 3, 6, 14, 30, 200, 10_000]


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", [-40.0, -1.5, 0.0, 0.3, 1.0, 2.5, 8.0, 40.0])
def test_the_tail_of_students_t(t: float, df: int) -> None:
    assert ours.t_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-9)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("tail", [0.49, 0.1, 0.01, 1e-4, 1e-9])
def test_the_quantile_of_students_t(tail: float, df: int) -> None:
    assert ours.t_quantile(tail, df) == pytest.approx(stats.t.isf(tail, df), rel=1e-8)


def test_no_tail_at_all_is_infinitely_far() -> None:
    assert ours.t_quantile(0.0, 5) == math.inf


def test_a_tail_beyond_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.7"):
        ours.t_quantile(0.7, 5)


@pytest.mark.parametrize("df", [1, 2, 7, 15, 100])
@pytest.mark.parametrize("lower", [0.001, 0.05, 0.2, 0.8, 0.999])
def test_chi_square(lower: float, df: int) -> None:
    x = stats.chi2.ppf(lower, df)
    assert ours.chi2_cdf(x, df) == pytest.approx(lower, rel=1e-9)
    assert ours.chi2_quantile(lower, df) == pytest.approx(x, rel=1e-8)


@pytest.mark.parametrize("table", [(3, 77, 0, 560), (0, 80, 0, 560), (40, 40, 40, 520), (1, 9, 11, 3), (80, 0, 560, 0)])
def test_fishers_exact_test(table: tuple[int, int, int, int]) -> None:
    a, b, c, d = table
    assert ours.fisher_exact(*table) == pytest.approx(stats.fisher_exact([[a, b], [c, d]]).pvalue, rel=1e-6)


@pytest.mark.parametrize("z", [-3.0, 0.0, 2.0, 9.0])
def test_the_normal_tail(z: float) -> None:
    assert ours.normal_tail(z) == pytest.approx(stats.norm.sf(z), rel=1e-12)
