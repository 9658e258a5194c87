"""The stand-in answers as the engine does, over a real connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from engine_standin.arguments import parse
from engine_standin.observed import attested
from engine_standin.server import Engine, listen
from engine_standin.settings import Settings

FAST = Settings(tokens_per_second=20000)
SPECULATIVE = '{"method":"dspark","num_speculative_tokens":3,"synthetic_acceptance_length":2.6}'


@asynccontextmanager
async def serving(*words: str, settings: Settings = FAST) -> AsyncIterator[tuple[Engine, aiohttp.ClientSession]]:
    """A stand-in on a free port, and a client whose relative addresses lead to it."""
    arguments = parse(["/models/plain", "--host", "127.0.0.1", "--port", "0", *words])
    engine = Engine(arguments, settings, attested(settings, {}))
    runner, port = await listen(engine)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        yield engine, client
    await runner.cleanup()


async def series(client: aiohttp.ClientSession) -> dict[str, float]:
    """The metrics by their name and labels as printed."""
    async with client.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


async def events(response: aiohttp.ClientResponse) -> list[dict[str, Any]]:
    """The events of a stream, which must be closed by [DONE]."""
    found = [line.removeprefix(b"data: ").strip() async for line in response.content if line.startswith(b"data: ")]
    assert found[-1] == b"[DONE]"
    return [json.loads(event) for event in found[:-1]]


async def test_models_lists_every_served_name_under_the_path_that_was_given() -> None:
    async with serving("--served-model-name", "first", "second") as (_, client), client.get("/v1/models") as response:
        body = await response.json()
    assert [(entry["id"], entry["root"]) for entry in body["data"]] == [
        ("first", "/models/plain"),
        ("second", "/models/plain"),
    ]


async def test_version_says_that_it_is_a_stand_in() -> None:
    async with serving() as (_, client), client.get("/version") as response:
        assert (await response.json())["standin"] is True


async def test_a_completion_has_exactly_the_asked_tokens_and_their_usage() -> None:
    request = {"prompt": "one two three", "max_tokens": 7}
    async with serving() as (_, client), client.post("/v1/completions", json=request) as response:
        body = await response.json()
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
    assert body["choices"][0]["finish_reason"] == "length"


async def test_a_streamed_text_is_the_unstreamed_one() -> None:
    async with serving("--speculative-config", SPECULATIVE) as (_, client):
        request = {"prompt": "hello", "max_tokens": 40}
        async with client.post("/v1/completions", json=request) as response:
            whole = (await response.json())["choices"][0]["text"]
        async with client.post("/v1/completions", json={**request, "stream": True}) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            found = await events(response)
    assert "".join(event["choices"][0]["text"] for event in found) == whole
    assert [event["choices"][0]["finish_reason"] for event in found][-1] == "length"


async def test_a_chat_stream_opens_with_the_role_and_ends_with_usage_when_asked() -> None:
    request = {
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with serving() as (_, client), client.post("/v1/chat/completions", json=request) as response:
        found = await events(response)
    assert found[0]["choices"][0]["delta"]["role"] == "assistant"
    assert found[-1]["usage"]["completion_tokens"] == 5
    assert found[-1]["choices"] == []


async def test_acceptance_length_read_from_the_metrics_is_the_configured_one() -> None:
    async with serving("--speculative-config", SPECULATIVE) as (_, client):
        async with client.post("/v1/completions", json={"prompt": "hello", "max_tokens": 1300}) as response:
            assert response.status == 200
        found = await series(client)
    labels = '{engine="0",model_name="/models/plain"}'
    drafts = found[f"vllm:spec_decode_num_drafts_total{labels}"]
    accepted = found[f"vllm:spec_decode_num_accepted_tokens_total{labels}"]
    assert drafts == 500
    assert 1 + accepted / drafts == 2.6
    assert found[f"vllm:spec_decode_num_draft_tokens_total{labels}"] == 3 * drafts
    assert found[f"vllm:generation_tokens_total{labels}"] == 1300


async def test_without_speculative_decoding_there_are_no_speculative_series() -> None:
    async with serving() as (_, client):
        assert not [name for name in await series(client) if "spec_decode" in name]


async def test_running_requests_are_counted_while_they_run_and_not_after() -> None:
    running = 'vllm:num_requests_running{engine="0",model_name="/models/plain"}'
    slow = Settings(tokens_per_second=50)
    async with serving(settings=slow) as (engine, client):
        request = {"prompt": "hello", "max_tokens": 10, "stream": True}
        async with client.post("/v1/completions", json=request) as response:
            assert (await series(client))[running] == 1
            await events(response)
        await engine.idle.wait()
        assert (await series(client))[running] == 0


async def test_a_client_that_goes_away_ends_its_request_as_aborted() -> None:
    aborted = 'vllm:request_success_total{engine="0",finished_reason="abort",model_name="/models/plain"}'
    async with serving(settings=Settings(tokens_per_second=100)) as (engine, client):
        request = {"prompt": "hello", "max_tokens": 2000, "stream": True}
        response = await client.post("/v1/completions", json=request)
        await response.content.readline()
        response.close()
        await asyncio.wait_for(engine.idle.wait(), 10)
        assert (await series(client))[aborted] == 1


async def test_bad_requests_are_refused_with_the_field_at_fault() -> None:
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"prompt": "hello", "model": "other"}, 404, "model"),
        ({"prompt": ""}, 400, "prompt"),
        ({"prompt": "hello", "max_tokens": 0}, 400, "max_tokens"),
        ({"prompt": "hello", "max_tokens": 5000}, 400, "max_tokens"),
        ({"prompt": "hello", "max_tokens": "many"}, 400, "max_tokens"),
        ({"prompt": "hello", "n": 2}, 400, "n"),
        ({"prompt": ["a", "b"]}, 400, "prompt"),
    ]
    async with serving() as (_, client):
        for body, status, param in cases:
            async with client.post("/v1/completions", json=body) as response:
                assert (response.status, (await response.json())["error"]["param"]) == (status, param), body


async def test_a_body_that_is_not_json_is_refused() -> None:
    async with serving() as (_, client), client.post("/v1/completions", data=b"{") as response:
        assert response.status == 400
        assert "not JSON" in (await response.json())["error"]["message"]


async def test_health_fails_from_the_set_moment_while_requests_are_still_served() -> None:
    async with serving(settings=Settings(tokens_per_second=20000, health_fails_after_seconds=0)) as (_, client):
        async with client.get("/health") as response:
            assert response.status == 503
        async with client.post("/v1/completions", json={"prompt": "hello"}) as response:
            assert response.status == 200


async def test_a_drain_lets_running_streams_end_and_answers_new_requests_with_abort() -> None:
    slow = Settings(tokens_per_second=100)
    async with serving("--shutdown-timeout", "30", settings=slow) as (engine, client):
        request = {"prompt": "hello", "max_tokens": 60, "stream": True}
        async with client.post("/v1/completions", json=request) as running:
            await running.content.readline()
            drain = asyncio.create_task(engine.drain())
            async with client.post("/v1/completions", json=request) as late:
                assert late.status == 200
                assert [event["choices"][0]["finish_reason"] for event in await events(late)] == ["abort"]
            async with client.get("/health") as response:
                assert response.status == 200
            assert (await events(running))[-1]["choices"][0]["finish_reason"] == "length"
        assert await drain


async def test_a_drain_without_a_timeout_ends_running_streams_as_aborted() -> None:
    async with serving(settings=Settings(tokens_per_second=50)) as (engine, client):
        request = {"prompt": "hello", "max_tokens": 1000, "stream": True}
        async with client.post("/v1/completions", json=request) as running:
            await running.content.readline()
            assert not await engine.drain()
            assert (await events(running))[-1]["choices"][0]["finish_reason"] == "abort"


async def test_what_outlasts_the_shutdown_timeout_fails_as_when_the_engine_loses_its_core() -> None:
    request = {"prompt": "hello", "max_tokens": 1000}
    async with serving("--shutdown-timeout", "1", settings=Settings(tokens_per_second=50)) as (engine, client):
        whole = asyncio.create_task(client.post("/v1/completions", json=request))
        async with client.post("/v1/completions", json={**request, "stream": True}) as stream:
            while engine.running < 2:
                await stream.content.readline()
            assert not await engine.drain()
            last = (await events(stream))[-1]
        assert last["error"]["code"] == 500
        assert "choices" not in last
        async with await whole as response:
            assert response.status == 500
            assert (await response.json())["error"]["type"] == "InternalServerError"


async def test_fifty_streams_at_once_each_come_back_whole() -> None:
    request = {"prompt": "hello", "max_tokens": 200, "stream": True}
    async with serving(settings=Settings(tokens_per_second=400)) as (_, client):

        async def one() -> str:
            async with client.post("/v1/completions", json=request) as response:
                return str((await events(response))[-1]["choices"][0]["finish_reason"])

        assert await asyncio.gather(*(one() for _ in range(50))) == ["length"] * 50
