"""`kubectl-specdecode samples`: what it prints is what judge reads, and what it can't do has an exit code."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scraped import COUNT, SPAN, SUM, Standin, pod, without

from specdecode_operator.api import names
from specdecode_operator.cli import main as cli
from specdecode_operator.gates.samples import read_samples

TIMES = ("--from", "1000", "--to", "1970-01-01T00:18:10Z", "--window", "30s")
OBJECT = ("--namespace", "team", "--name", "chat")

Run = tuple[int, str, str]
Ask = Callable[..., Run]


@pytest.fixture
def standin() -> Iterator[Standin]:
    """The stand-in in a thread of its own: the command has its own loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    found = Standin(pod())
    asyncio.run_coroutine_threadsafe(found.start(), loop).result()
    yield found
    asyncio.run_coroutine_threadsafe(found.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def ask(standin: Standin, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the command against the stand-in: exit code, output, errors."""

    def run(*options: str, times: tuple[str, ...] = TIMES, backend: tuple[str, ...] = ()) -> Run:
        whom = backend or ("--backend-url", standin.url)
        try:
            code = cli.main(["samples", *whom, *OBJECT, *times, *options])
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return run


def test_what_is_printed_is_what_judge_reads(ask: Ask) -> None:
    code, output, errors = ask()
    assert (code, errors) == (0, "")
    found = list(read_samples(output.splitlines()))
    assert [(one.window_start, one.metric, one.count) for one in found] == [
        (1000.0, SPAN, 300.0), (1030.0, SPAN, 300.0), (1060.0, SPAN, 300.0),
    ]  # fmt: skip


def test_pieces_without_data_are_holes_and_the_others_are_printed(ask: Ask) -> None:
    code, output, _ = ask(times=("--from", "10", "--to", "2170", "--window", "30s"))
    assert code == 0
    starts = [one.window_start for one in read_samples(output.splitlines()) if not one.flags]
    assert starts == [1000.0, 1030.0, 1060.0]


def test_metrics_revisions_and_pods_can_be_chosen(ask: Ask, standin: Standin) -> None:
    ask("--metric", "a_seconds", "--metric", "b_total", "--revision", "old", "--revision", "r2", "--buckets")
    assert [query.split(",")[0] for query in standin.queries[1:]] == [
        '{__name__=~"a_seconds_count|a_seconds_sum|a_seconds_bucket"', '{__name__="b_total"',
    ]  # fmt: skip
    assert 'specdecode_revision=~"old|r2"' in standin.queries[0]
    _, output, _ = ask("--pod-uid", "another")
    assert {one.flags for one in read_samples(output.splitlines())} == {("foreign",)}


def test_what_gates_read_is_asked_for_by_itself(ask: Ask, standin: Standin) -> None:
    ask()
    asked = "\n".join(standin.queries)
    for metric in (*names.METRIC_SPANS, names.METRIC_ACCEPTANCE, names.METRIC_DROPPED):
        assert metric in asked


def test_queries_can_be_shown_instead_of_asked(ask: Ask, standin: Standin) -> None:
    code, output, _ = ask("--metric", SPAN, "--show-queries")
    assert (code, standin.requests) == (0, 0)
    ask("--metric", SPAN)
    assert output.splitlines() == standin.queries


def test_no_data_is_20_and_says_what_there_is(ask: Ask, standin: Standin) -> None:
    standin.series = without(COUNT, SUM)(pod())
    code, output, errors = ask()
    assert (code, output) == (20, "")
    assert errors.startswith("kubectl-specdecode samples: backend given: 1 pods were scraped and have none of it")


def test_a_backend_that_is_not_there_is_20(ask: Ask) -> None:
    code, output, errors = ask(backend=("--backend-url", "http://127.0.0.1:9"))
    assert (code, output) == (20, "")
    assert "backend given: the connection is refused" in errors


@pytest.fixture
def config(tmp_path: Path, standin: Standin) -> Path:
    """Two backends, the second of them the stand-in with a token."""
    (tmp_path / "token").write_text("t0ken")
    path = tmp_path / "backends.json"
    path.write_text(json.dumps([
        {"name": "other", "url": "http://127.0.0.1:9", "namespaces": ["else"]},
        {"name": "main", "url": standin.url, "bearerFile": str(tmp_path / "token")},
    ]))  # fmt: skip
    return path


def test_a_backend_of_a_file_is_asked_with_its_credential(ask: Ask, config: Path, standin: Standin) -> None:
    code, _, _ = ask(backend=("--config", str(config), "--backend", "main"))
    assert code == 0
    assert {headers["Authorization"] for headers in standin.headers} == {"Bearer t0ken"}


@pytest.mark.parametrize("name", [(), ("--backend", "other"), ("--backend", "third")])
def test_a_backend_that_can_not_be_chosen_is_64_and_says_which_can(
    ask: Ask, config: Path, name: tuple[str, ...]
) -> None:
    code, output, errors = ask(backend=("--config", str(config), *name))
    assert (code, output) == (64, "")
    assert "--backend: found " in errors
    assert "allowed: main;" in errors


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (("--from", "1000", "--to", "1045"), "--to: found 0.75 windows"),
        (("--from", "1000", "--to", "1000"), "--to: found 0 windows"),
        (("--from", "1000", "--to", "940"), "--to: found -1 windows"),
        (("--from", "0", "--to", "6000000"), "at most 720"),
        (("--from", "1000", "--to", "1090", "--window", "15s"), "--window: found 15 s at a scrape each 10 s"),
        (("--from", "4102444800", "--to", "4102444860"), "isn't over"),
        (("--from", "-60", "--to", "0"), "--from: found -60"),
        (("--from", "nan", "--to", "1000"), "--from"),
        (("--from", "1000", "--to", "1e400"), "--to"),
        (("--from", "yesterday", "--to", "1000"), "--from"),
        (("--from", "2026-01-31T12:00:00", "--to", "1000"), "a time with its zone is wanted"),
        (("--from", "1000", "--to", "1060", "--window", "60"), "a time like 500ms, 30s, 2m or 1h is wanted"),
        (("--from", "1000", "--to", "1060", "--window", "0s"), "a time like 500ms, 30s, 2m or 1h is wanted"),
        (("--from", "1000", "--to", "1060", "--metric", 'up{job="x"}'), "without labels"),
    ],
)
def test_what_can_not_be_asked_is_64_and_asks_nothing(
    ask: Ask, standin: Standin, times: tuple[str, ...], words: str
) -> None:
    code, output, errors = ask(times=times)
    assert (code, output) == (64, "")
    assert words in errors
    assert standin.requests == 0


@pytest.mark.parametrize(("content", "words"), [("[", "no JSON"), ('[{"name": "a"}]', "[0].url: found")])
def test_a_bad_file_is_64_and_named(ask: Ask, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    code, _, errors = ask(backend=("--config", str(path)))
    assert code == 64
    assert str(path) in errors
    assert words in errors
