"""The load generator counts a request as done only if its stream came back whole."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
from aiohttp import web

from specdecode_local.load import Target, one_stream, refuse_foreign, run_load

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def event(payload: object) -> bytes:
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n".encode()


USAGE = event({"choices": [], "usage": {"completion_tokens": 3}})
TOKEN = event({"choices": [{"text": "a"}]})


def answering(*events: bytes, status: int = 200) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        assert (await request.json())["max_tokens"] == 3
        response = web.StreamResponse(status=status, headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for one in events:
            await response.write(one)
        return response

    return handle


async def cut_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(TOKEN)
    assert request.transport is not None
    request.transport.abort()
    return response


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Awaitable[Target]]]:
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> Target:
        app = web.Application()
        app.router.add_post("/v1/completions", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        return Target(url=f"http://127.0.0.1:{port}/v1/completions", model="m", max_tokens=3)

    yield start
    for runner in runners:
        await runner.cleanup()


async def failure_of(target: Target) -> str | None:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await one_stream(client, target))[0]


async def test_a_whole_stream_is_done(serve: Callable[[Handler], Awaitable[Target]]) -> None:
    assert await failure_of(await serve(answering(TOKEN, TOKEN, TOKEN, USAGE, event("[DONE]")))) is None


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (answering(TOKEN, status=503), "status 503"),
        (answering(TOKEN, USAGE), "without [DONE]"),
        (answering(TOKEN, event({"choices": [], "usage": {"completion_tokens": 2}}), event("[DONE]")), "2 tokens came"),
        (answering(event({"error": {"message": "engine died"}})), "engine died"),
        (answering(event("{not json")), "JSONDecodeError"),
        (cut_off, "RemoteProtocolError"),
    ],
    ids=["bad status", "no closing line", "too few tokens", "error in stream", "not json", "connection cut"],
)
async def test_anything_less_is_a_failure_with_its_reason(
    serve: Callable[[Handler], Awaitable[Target]], handler: Handler, reason: str
) -> None:
    failure = await failure_of(await serve(handler))
    assert failure is not None
    assert reason in failure


async def test_a_load_counts_what_failed_and_stops_by_itself(serve: Callable[[Handler], Awaitable[Target]]) -> None:
    target = await serve(answering(TOKEN, USAGE))
    report = await run_load(target, streams=3, seconds=0.2)
    assert report.failed >= 3
    assert report.completed == 0
    assert report.in_flight == 0
    assert "without [DONE]" in report.sentence()


@pytest.mark.parametrize("url", ["http://192.0.2.1/v1", "http://example.org/v1", "not a url"])
def test_a_load_to_another_machine_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="this machine only"):
        refuse_foreign(url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/v1", "http://localhost/v1", "http://10.244.0.7:8000/v1"])
def test_a_load_to_this_machine_is_allowed(url: str) -> None:
    refuse_foreign(url)
