"""Backends that lie, dawdle, drip, break or aren't there: a clear error in bounded time, never a wrong number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from misbehaving import drip, endless, never
from scraped import PATIENT, QUESTION, Handler, Standin, pod

from specdecode_operator.metrics.backends import Backend
from specdecode_operator.metrics.errors import BackendDown, MetricsError, NoData, TooMuch
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.prometheus import Limits
from specdecode_operator.metrics.query import queries

QUICK = Limits(deadline=600.0, attempt=300.0, retries=2, pause=0.001)
AT_ONCE = Limits(deadline=600.0, attempt=0.2, retries=1, pause=0.001)


async def failure(backend: Backend, limits: Limits = QUICK) -> MetricsError:
    with pytest.raises(MetricsError) as raised:
        await fetch(backend, QUESTION, limits=limits)
    return raised.value


def answering(make: Callable[[], web.StreamResponse]) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return make()

    return answer


def saying(document: Any) -> Handler:
    return answering(lambda: web.json_response(document))


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def half(request: web.Request) -> web.StreamResponse:
    """More is announced than comes."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"status": "success"')
    return await hang_up(request)


def first(standin: Standin, *answers: Handler) -> Handler:
    """These, one request each, and then the truth."""
    waiting = list(answers)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await (waiting.pop(0) if waiting else standin.truth)(request)

    return answer


# --- Nobody there, or not in time -------------------------------------------------------------------------------------


async def test_a_backend_that_is_not_there_is_down(backend: Backend, standin: Standin) -> None:
    await standin.stop()
    error = await failure(backend)
    assert isinstance(error, BackendDown)
    assert str(error) == "backend main: the connection is refused (asked 3 times)"


async def test_a_host_that_nobody_knows_is_down() -> None:
    error = await failure(Backend(name="main", url="http://prometheus.invalid:9090"))
    assert isinstance(error, BackendDown)


@pytest.mark.parametrize("slow", [never, drip])
async def test_a_backend_that_takes_too_long_is_down(backend: Backend, standin: Standin, slow: Handler) -> None:
    standin.answer = slow
    error = await failure(backend, AT_ONCE)
    assert isinstance(error, BackendDown)
    assert "nothing within 0.2 s (asked 2 times)" in str(error)


@pytest.mark.parametrize("slow", [never, drip])
async def test_the_deadline_of_a_fetch_ends_it_whatever_else_is_allowed(
    backend: Backend, standin: Standin, slow: Handler
) -> None:
    standin.answer = slow
    error = await failure(backend, Limits(deadline=0.3, attempt=300.0))
    assert isinstance(error, BackendDown)
    assert "weren't there after 0.3 s" in str(error)


async def test_a_backend_that_comes_back_in_time_is_asked_again(backend: Backend, standin: Standin) -> None:
    unwell = answering(lambda: web.Response(status=503))
    standin.answer = first(standin, unwell, hang_up)
    assert len(await fetch(backend, QUESTION, limits=QUICK)) == 3
    assert standin.requests == 4, "two queries, and two that were repeated"


async def test_a_backend_that_is_started_again_between_two_queries_is_asked_again(
    backend: Backend, standin: Standin
) -> None:
    gone = asyncio.Event()

    async def ending(request: web.Request) -> web.StreamResponse:
        gone.set()
        return await hang_up(request)

    async def restarted() -> None:
        await gone.wait()
        await standin.stop()
        standin.answer = None
        await standin.start()

    standin.answer = first(standin, standin.truth, ending)
    again = asyncio.create_task(restarted())
    found = await fetch(backend, QUESTION, limits=Limits(deadline=600.0, attempt=300.0, retries=8, pause=0.05))
    await again
    assert len(found) == 3


async def test_repetitions_are_counted_over_the_whole_fetch(backend: Backend, standin: Standin) -> None:
    unwell = answering(lambda: web.Response(status=500))
    standin.answer = first(standin, unwell, standin.truth, unwell, unwell)
    error = await failure(backend)
    assert str(error) == "backend main: it answers 500 (asked 3 times)"
    assert standin.requests == 4


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 418, 501])
async def test_a_refusal_that_stays_is_not_asked_again(backend: Backend, standin: Standin, status: int) -> None:
    standin.answer = answering(lambda: web.Response(status=status, text="no"))
    error = await failure(backend)
    assert isinstance(error, BackendDown)
    assert f"it answers {status}" in str(error)
    assert standin.requests == 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_a_refusal_that_may_pass_is_asked_again(backend: Backend, standin: Standin, status: int) -> None:
    standin.answer = answering(lambda: web.Response(status=status))
    assert isinstance(await failure(backend), BackendDown)
    assert standin.requests == 3


async def test_no_redirect_is_followed(backend: Backend, standin: Standin) -> None:
    standin.answer = answering(lambda: web.Response(status=302, headers={"Location": f"{standin.url}/elsewhere"}))
    error = await failure(backend)
    assert "sends us elsewhere" in str(error)
    assert standin.requests == 1


async def test_no_proxy_of_the_environment_is_used(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert len(await fetch(backend, QUESTION, limits=PATIENT)) == 3


# --- More than is read ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [413, 422])
async def test_what_a_backend_will_not_load_is_too_much(backend: Backend, standin: Standin, status: int) -> None:
    standin.answer = answering(lambda: web.Response(status=status))
    assert isinstance(await failure(backend), TooMuch)
    assert standin.requests == 1


async def test_an_answer_without_end_is_not_read_to_it(backend: Backend, standin: Standin) -> None:
    standin.answer = endless
    error = await failure(backend, Limits(deadline=600.0, attempt=300.0, answer_bytes=200_000))
    assert isinstance(error, TooMuch)
    assert "larger than 200000 bytes" in str(error)


async def test_more_series_than_are_read_at_once_are_too_much(backend: Backend, standin: Standin) -> None:
    standin.series = [one for number in range(3) for one in pod(f"uid-{number}")]
    assert isinstance(await failure(backend, Limits(deadline=600.0, attempt=300.0, series=11)), TooMuch)
    assert len(await fetch(backend, QUESTION, limits=Limits(deadline=600.0, attempt=300.0, series=12))) == 9


# --- Answers that are none --------------------------------------------------------------------------------------------


def matrix(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(rows)}, **more}


UP = {"__name__": "up", "pod_uid": "uid-1"}
GARBLED: dict[str, Any] = {
    "a list": [],
    "null": None,
    "no status": {"data": {}},
    "an error with status 200": {"status": "error", "errorType": "internal", "error": "oops"},
    "no data": {"status": "success"},
    "a vector": {"status": "success", "data": {"resultType": "vector", "result": []}},
    "no result": {"status": "success", "data": {"resultType": "matrix"}},
    "rows that are no objects": matrix(1),
    "a row without labels": matrix({"values": []}),
    "labels as a list": matrix({"metric": ["up"], "values": []}),
    "a label that is a number": matrix({"metric": {**UP, "node": 1}, "values": []}),
    "a label without end": matrix({"metric": {**UP, "node": "n" * 300}, "values": []}),
    "a label with a line end": matrix({"metric": {**UP, "node": "a\nb"}, "values": []}),
    "another metric": matrix({"metric": {"__name__": "go_goroutines"}, "values": []}),
    "no metric": matrix({"metric": {}, "values": []}),
    "values as an object": matrix({"metric": UP, "values": {"1000": "1"}}),
    "a value alone": matrix({"metric": UP, "values": ["1"]}),
    "a value that is no text": matrix({"metric": UP, "values": [[1000, 1]]}),
    "a value that is no number": matrix({"metric": UP, "values": [[1000, "many"]]}),
    "a time that is text": matrix({"metric": UP, "values": [["1000", "1"]]}),
    "a time that is true": matrix({"metric": UP, "values": [[True, "1"]]}),
    "samples of the future": matrix({"metric": UP, "values": [[1100, "1"]]}),
    "samples of the past": matrix({"metric": UP, "values": [[900, "1"]]}),
    "a part of the answer": matrix(warnings=["a store is missing"]),
}


@pytest.mark.parametrize("name", GARBLED)
async def test_what_is_no_answer_is_a_backend_that_is_down(backend: Backend, standin: Standin, name: str) -> None:
    standin.answer = saying(GARBLED[name])
    error = await failure(backend)
    assert isinstance(error, BackendDown)
    assert "the answer can't be used: " in str(error)
    assert standin.requests == 3, "the next one may be whole"


@pytest.mark.parametrize(
    "body", [b"", b"<html>Sign in</html>", b"\xff\xfe", b"[" * 100_000, b'{"status": "success"', b"NaN"]
)
async def test_what_is_no_json_is_a_backend_that_is_down(backend: Backend, standin: Standin, body: bytes) -> None:
    standin.answer = answering(lambda: web.Response(body=body))
    assert isinstance(await failure(backend), BackendDown)


@pytest.mark.parametrize("broken", [hang_up, half])
async def test_a_connection_that_breaks_is_a_backend_that_is_down(
    backend: Backend, standin: Standin, broken: Handler
) -> None:
    standin.answer = broken
    error = await failure(backend)
    assert isinstance(error, BackendDown)
    assert "the connection broke" in str(error)


async def test_what_speaks_no_http_is_a_backend_that_is_down() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ready\r\n")
        await writer.drain()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        error = await failure(Backend(name="main", url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    assert isinstance(error, BackendDown)
    assert "it doesn't speak HTTP there" in str(error)


async def test_native_histograms_are_left_alone(backend: Backend, standin: Standin) -> None:
    standin.answer = saying(matrix({"metric": UP, "histograms": [[1000, {}]]}))
    assert isinstance(await failure(backend), NoData)


# --- What is asked ----------------------------------------------------------------------------------------------------


async def test_the_queries_that_are_shown_are_the_ones_that_are_asked(backend: Backend, standin: Standin) -> None:
    await fetch(backend, QUESTION, limits=PATIENT)
    identity, measured = queries(QUESTION, backend.labels)
    assert standin.queries == [str(identity), *(str(query) for _, query in measured)]


async def test_a_path_of_the_backend_s_is_kept(standin: Standin) -> None:
    paths: list[str] = []

    async def noting(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        return await standin.truth(request)

    standin.answer = noting
    await fetch(Backend(name="mimir", url=f"{standin.url}/prometheus/"), QUESTION, limits=PATIENT)
    assert set(paths) == {"/prometheus/api/v1/query"}
