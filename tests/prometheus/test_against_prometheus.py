"""Samples of a real Prometheus: raw scrapes of pods that restart, fall silent, are replaced or scraped twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from exporters import RATE, SPAN, STEP
from prometheusprocess import WAIT
from realprometheus import History
from waiting import await_that

from specdecode_operator.cli import main as cli
from specdecode_operator.gates.samples import Sample, read_samples
from specdecode_operator.gates.windows import Grid
from specdecode_operator.metrics.errors import BackendDown, NoData, TooMuch
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.prometheus import Limits
from specdecode_operator.metrics.query import Metric, Question, queries

PATIENT = Limits(deadline=600.0, attempt=300.0)


def question(history: History) -> Question:
    return Question(namespace="team", name="chat", grid=history.past.grid, metrics=(Metric(SPAN),), revisions=("old",))


async def of(history: History, uid: str) -> list[Sample]:
    """One pod's samples, in order."""
    found = await fetch(history.backend, question(history), limits=PATIENT)
    return sorted((one for one in found if one.pod_uid == uid), key=lambda one: one.window_start)


async def test_a_steady_pod_s_windows_hold_each_step_once(history: History) -> None:
    grid = history.past.grid
    found = await of(history, "steady")
    assert [one.flags for one in found] == [(), (), ()]
    assert [one.window_start for one in found] == [grid.ends(window)[0] for window in range(3)]
    for one in found:
        assert one.count == RATE * grid.seconds
        assert one.sum == pytest.approx(STEP * one.count)
        assert one.requests == one.count / 50
        assert (one.manifest_digest, one.sample_every, one.node) == ("sha256:old", 8, "node-steady")


@pytest.mark.parametrize(
    ("uid", "flag"),
    [("restarted", "restart"), ("reset", "reset"), ("mute", "down"), ("thinned", "stale"), ("undefined", "notFinite")],
)
async def test_what_happens_in_the_second_window_spends_it(history: History, uid: str, flag: str) -> None:
    first, second, _ = await of(history, uid)
    assert (first.flags, second.flags) == ((), (flag,))
    assert second.count == 0


async def test_a_restarted_process_is_another_from_then_on(history: History) -> None:
    first, second, third = await of(history, "restarted")
    born = history.past.born_anew
    assert first.start_time == pytest.approx(history.past.born)
    assert (second.start_time, third.start_time) == (pytest.approx(born), pytest.approx(born))
    assert (third.flags, third.count) == ((), RATE * history.past.grid.seconds)


async def test_a_pod_that_was_replaced_ends_and_the_new_one_begins(history: History) -> None:
    before, after = await of(history, "before"), await of(history, "after")
    assert (before[0].flags, before[2].flags) == ((), ("gap",))
    assert [one.window_start for one in after] == [history.past.grid.ends(window)[0] for window in (1, 2)]
    assert [one.flags for one in after] == [("gap",), ()]


async def test_a_pod_that_two_jobs_scrape_has_no_number(history: History) -> None:
    found = await of(history, "twice")
    assert len(found) == 6
    assert all("duplicate" in one.flags for one in found)


async def test_our_own_start_time_will_do_and_none_will_not(history: History) -> None:
    assert {one.flags for one in await of(history, "own")} == {()}
    assert {one.flags for one in await of(history, "unborn")} == {("startUnknown",)}


async def test_another_revision_is_not_asked_for(history: History) -> None:
    assert await of(history, "other") == []
    both = replace(question(history), revisions=())
    assert "other" in {one.pod_uid for one in await fetch(history.backend, both, limits=PATIENT)}


async def test_a_time_without_a_scrape_is_no_data_beside_one_with(history: History) -> None:
    asked = question(history)
    empty = replace(asked, grid=replace(asked.grid, start=asked.grid.start - 1800))
    with pytest.raises(NoData, match="no such pod was scraped"):
        await fetch(history.backend, empty, limits=PATIENT)
    assert await fetch(history.backend, asked, limits=PATIENT)


async def test_a_metric_that_nobody_has_is_no_data(history: History) -> None:
    asked = replace(question(history), metrics=(Metric("specdecode_nothing_seconds"),))
    with pytest.raises(NoData, match="pods were scraped and have none of it"):
        await fetch(history.backend, asked, limits=PATIENT)


def test_a_pasted_query_shows_the_scrapes_as_they_were(history: History) -> None:
    _, ((_, query),) = queries(question(history), {})
    rows = [row for row in history.prometheus.query(str(query)) if row["metric"]["pod_uid"] == "steady"]
    assert {row["metric"]["__name__"] for row in rows} == {f"{SPAN}_count", f"{SPAN}_sum"}
    (counts,) = [row["values"] for row in rows if row["metric"]["__name__"] == f"{SPAN}_count"]
    # The end of what is asked belongs to it, the beginning does not.
    _, *times = history.past.times(0)
    assert counts == [[pytest.approx(time), str(history.past.steady(time).steps)] for time in times]


async def test_a_pod_that_is_scraped_live_has_the_difference_of_what_it_told(history: History) -> None:
    await_that("the live pod is scraped four times", lambda: len(live(history)) >= 4, seconds=WAIT)
    times = [float(time) for time, _ in live(history)]
    # Patient with scrapes that come late: this is about what Prometheus itself writes of a scrape.
    grid = Grid(start=times[0], seconds=times[-1] - times[0], count=1, scrape_interval=60.0)
    asked = replace(question(history), grid=grid, revisions=("live",))
    (found,) = await fetch(history.backend, asked, limits=PATIENT)
    assert (found.flags, found.node, found.start_time) == ((), "node-live", pytest.approx(history.past.born))
    assert len(times) - 1 <= found.count < len(history.prometheus.exporters.served)


def live(history: History) -> list[tuple[float, str]]:
    """The live pod's scrapes that were taken: time and steps."""
    rows = history.prometheus.query(f'{SPAN}_count{{pod_uid="live"}}[5m]')
    return [(time, value) for row in rows for time, value in row["values"]]


async def test_more_series_than_asked_for_are_told_as_too_much(history: History) -> None:
    with pytest.raises(TooMuch, match="more than 3 series"):
        await fetch(history.backend, question(history), limits=replace(PATIENT, series=3))


def test_the_command_prints_what_judge_reads(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    grid = history.past.grid
    code = cli.main([
        "samples", "--backend-url", history.prometheus.url, "--namespace", "team", "--name", "chat", "--metric", SPAN,
        "--revision", "old", "--pod-uid", "steady", "--scrape-interval", f"{grid.scrape_interval:g}s",
        "--from", str(grid.start), "--to", str(grid.ends(2)[1]), "--window", f"{grid.seconds:g}s",
    ])  # fmt: skip
    output, errors = capsys.readouterr()
    assert (code, errors) == (0, "")
    found = list(read_samples(output.splitlines()))
    assert {one.pod_uid for one in found if "foreign" not in one.flags} == {"steady"}
    assert len([one for one in found if one.pod_uid == "steady"]) == 3


async def test_a_fraction_of_a_second_is_a_time_limit_that_it_takes(history: History) -> None:
    assert await fetch(history.backend, question(history), limits=replace(PATIENT, attempt=29.5))


@pytest.fixture
def frozen(history: History) -> Iterator[History]:
    """Prometheus, stopped in its tracks: every thread, which on a busy machine takes a moment."""
    process = history.prometheus.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    await_that("Prometheus has stopped", lambda: set(states(process.pid)) == {"T"}, seconds=30, poll=0.01)
    yield history
    process.send_signal(signal.SIGCONT)


def states(pid: int) -> list[str]:
    """Of each of its threads: proc_pid_stat(5), the letter behind the name."""
    return [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]


async def test_a_prometheus_that_hangs_is_down_in_bounded_time(frozen: History) -> None:
    with pytest.raises(BackendDown, match=r"nothing within 0\.3 s"):
        await fetch(frozen.backend, question(frozen), limits=Limits(deadline=600.0, attempt=0.3, retries=1, pause=0.01))
