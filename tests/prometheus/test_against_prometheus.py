"""Samples of a real Prometheus: raw scrapes of pods that restart, fall silent, are replaced or scraped twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from exporters import RATE, SPAN
from realprometheus import INTERVAL, History

from specdecode_operator.cli import main as cli
from specdecode_operator.gates.samples import Sample, read_samples
from specdecode_operator.metrics.errors import BackendDown, NoData, TooMuch
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.prometheus import Limits
from specdecode_operator.metrics.query import Metric, Question, queries

PATIENT = Limits(deadline=600.0, attempt=300.0)


def question(history: History) -> Question:
    return Question(namespace="team", name="chat", grid=history.grid, metrics=(Metric(SPAN),), revisions=("old",))


async def of(history: History, uid: str) -> list[Sample]:
    """One pod's samples, in order."""
    found = await fetch(history.backend, question(history), limits=PATIENT)
    return sorted((one for one in found if one.pod_uid == uid), key=lambda one: one.window_start)


async def test_a_steady_pod_s_windows_hold_each_step_once(history: History) -> None:
    found = await of(history, "steady")
    assert [one.flags for one in found] == [(), (), ()]
    assert [one.window_start for one in found] == [history.grid.ends(window)[0] for window in range(3)]
    for one in found:
        assert one.sum / one.count == pytest.approx(0.002)
        assert abs(one.count - RATE * history.grid.seconds) < RATE * 2 * INTERVAL
        assert (one.manifest_digest, one.sample_every, one.node) == ("sha256:old", 8, "node-steady")
    told = history.exporters.served["steady"]
    whole = sum(one.count for one in found)
    assert any(later - earlier == whole for earlier in told for later in told), "a difference of two scrapes"


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
    born = history.exporters.born
    assert first.start_time < history.began
    assert (second.start_time, third.start_time) == (pytest.approx(born), pytest.approx(born))
    assert third.flags == ()
    assert third.sum / third.count == pytest.approx(0.002)


async def test_a_pod_that_was_replaced_ends_and_the_new_one_begins(history: History) -> None:
    before, after = await of(history, "before"), await of(history, "after")
    assert (before[0].flags, before[2].flags) == ((), ("gap",))
    assert [one.window_start for one in after] == [history.grid.ends(window)[0] for window in (1, 2)]
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
    empty = replace(asked, grid=replace(history.grid, start=history.grid.start - 3600))
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
    assert len(counts) >= 10
    assert {int(value) for _, value in counts} <= set(history.exporters.served["steady"])


async def test_more_series_than_asked_for_are_told_as_too_much(history: History) -> None:
    with pytest.raises(TooMuch, match="more than 3 series"):
        await fetch(history.backend, question(history), limits=replace(PATIENT, series=3))


def test_the_command_prints_what_judge_reads(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    start, end = history.grid.start, history.grid.ends(2)[1]
    code = cli.main([
        "samples", "--backend-url", history.prometheus.url, "--namespace", "team", "--name", "chat", "--metric", SPAN,
        "--revision", "old", "--pod-uid", "steady", "--scrape-interval", "1s",
        "--from", str(start), "--to", str(end), "--window", f"{history.grid.seconds:g}s",
    ])  # fmt: skip
    output, errors = capsys.readouterr()
    assert (code, errors) == (0, "")
    found = list(read_samples(output.splitlines()))
    assert {one.pod_uid for one in found if "foreign" not in one.flags} == {"steady"}
    assert len([one for one in found if one.pod_uid == "steady"]) == 3


@pytest.fixture
def frozen(history: History) -> Iterator[History]:
    """Prometheus, stopped in its tracks."""
    assert history.prometheus.process is not None
    history.prometheus.process.send_signal(signal.SIGSTOP)
    yield history
    history.prometheus.process.send_signal(signal.SIGCONT)


async def test_a_prometheus_that_hangs_is_down_in_bounded_time(frozen: History) -> None:
    with pytest.raises(BackendDown, match=r"nothing within 0\.3 s"):
        await fetch(frozen.backend, question(frozen), limits=Limits(deadline=600.0, attempt=0.3, retries=1, pause=0.01))
