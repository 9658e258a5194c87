"""Raw scrapes into increments: what may be differenced, and what spends the window."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.windows import Grid, Scrape, Track, increments

GRID = Grid(start=1000.0, seconds=30.0, count=3, scrape_interval=10.0)


def scrapes(first: float = 995.0) -> list[Scrape]:
    """Every ten seconds 100 steps of 2 ms each."""
    return [
        Scrape(first + 10 * n, 100.0 * n, 0.2 * n, 500.0, {"0.01": 100.0 * n, "+Inf": 100.0 * n}) for n in range(10)
    ]


def track(found: list[Scrape]) -> Track:
    return Track("old", "uid", "node", "span", "decode", "4", tuple(found))


def samples(found: list[Scrape]) -> list[Sample]:
    return list(increments(track(found), GRID))


def test_an_increment_is_the_difference_of_the_last_scrapes_before_the_ends() -> None:
    first, *_ = samples(scrapes())
    assert (first.count, first.flags) == (300.0, ())
    assert first.sum == pytest.approx(0.6)
    assert first.buckets == {"0.01": 300.0, "+Inf": 300.0}
    assert (first.window_start, first.window_end) == (1000.0, 1030.0)


def test_windows_join_without_losing_or_doubling_a_step() -> None:
    found = samples(scrapes())
    assert [sample.flags for sample in found] == [(), (), ()]
    assert sum(sample.count for sample in found) == 900.0


def edited(place: int, **changes: float) -> Callable[[list[Scrape]], list[Scrape]]:
    return lambda found: [replace(s, **changes) if n == place else s for n, s in enumerate(found)]


def from_place(place: int, change: Callable[[Scrape], Scrape]) -> Callable[[list[Scrape]], list[Scrape]]:
    return lambda found: [change(scrape) if n >= place else scrape for n, scrape in enumerate(found)]


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        (lambda found: [], "gap"),
        (lambda found: found[4:], "gap"),
        (lambda found: [*found[:1], *found[3:]], "gap"),
        (from_place(2, lambda s: replace(s, count=s.count - 150, sum=s.sum)), "reset"),
        (edited(2, sum=0.0), "reset"),
        (from_place(2, lambda s: replace(s, buckets={"0.01": 5.0, "+Inf": s.count})), "reset"),
        (from_place(2, lambda s: replace(s, buckets=None)), "layout"),
        (edited(2, count=math.nan), "notFinite"),
        (edited(2, sum=math.inf), "notFinite"),
        (from_place(2, lambda s: replace(s, start_time=1010.0)), "restart"),
        (lambda found: [*found[:2], found[3], found[2], *found[4:]], "clockJump"),
        (lambda found: [*found[:2], found[2], found[2], *found[3:]], "clockJump"),
        (lambda found: [replace(scrape, start_time=scrape.time + 5) for scrape in found], "clockJump"),
    ],
)
def test_what_is_no_increment_spends_the_window(change: Callable[[list[Scrape]], list[Scrape]], flag: str) -> None:
    first, *_ = samples(change(scrapes()))
    assert (first.count, first.sum, first.flags) == (0.0, 0.0, (flag,))


def test_a_reset_spends_only_its_own_window() -> None:
    found = from_place(5, lambda s: replace(s, count=s.count - 400, sum=s.sum - 0.8, buckets=None))(scrapes())
    found = [replace(scrape, buckets=None) for scrape in found]
    assert [sample.flags for sample in samples(found)] == [(), ("reset",), ()]


def test_a_scrape_that_stopped_before_the_end_is_a_gap() -> None:
    assert [sample.flags for sample in samples(scrapes()[:5])] == [(), ("gap",), ("gap",)]
