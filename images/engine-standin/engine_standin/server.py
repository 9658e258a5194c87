"""The HTTP server and its drain.

The drain is vLLM 0.33's: after SIGTERM the port stays open and /health stays 200, requests in flight go on for up to
`--shutdown-timeout` seconds, and a request that arrives in that time is answered with 200, no text and the finish
reason `abort`. So whoever drains an engine has to take it out of the traffic first. What is still in flight when the
time is up fails, since the engine's core is killed under it: 500, or in a stream an error event. Only without a
timeout, where the core is told to abort, does a request in flight end with 200 and `abort` too.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator

from aiohttp import web

from engine_standin import requests, version
from engine_standin.arguments import Arguments
from engine_standin.meters import Meters
from engine_standin.observed import observed
from engine_standin.requests import Generation, Kind, RequestError
from engine_standin.settings import Settings
from engine_standin.steps import Step, acceptance_length, steps
from specdecode_engine import asgi
from specdecode_engine.attestation import Attestation

CONNECTION_CLOSE_SECONDS = 1.0
"""Time that connections get to close once nothing is in flight any more."""


class CoreKilled(Exception):
    """The engine's core was killed under a request: the shutdown timeout was over before it ended."""


class Engine:
    """What would be the model: paces requests, counts them, and can be drained."""

    def __init__(self, arguments: Arguments, settings: Settings, attested: Attestation) -> None:
        self.arguments = arguments
        self.settings = settings
        self.attested = attested
        self.meters = Meters(arguments.served_names[0], arguments.draft_tokens)
        self.observed = observed(
            self.meters.registry,
            settings,
            model_name=arguments.served_names[0],
            method=arguments.method,
            drafted=arguments.draft_tokens,
            attested=attested,
        )
        configured = arguments.speculative.get("synthetic_acceptance_length")
        self.length = acceptance_length(settings.acceptance_length, arguments.draft_tokens, configured)
        self.started = time.monotonic()
        self.draining = False
        self.aborted = asyncio.Event()
        self.killed = False
        self.idle = asyncio.Event()
        self.idle.set()
        self.running = 0

    def healthy(self) -> bool:
        """Whether /health answers 200."""
        after = self.settings.health_fails_after_seconds
        return after < 0 or time.monotonic() - self.started < after

    async def generate(self, generation: Generation) -> AsyncIterator[Step]:
        """The steps of a request, each when it is due; ends early when everything is aborted.

        Raises CoreKilled where the engine itself would lose its core.
        """
        began = time.monotonic()
        first = True
        for step in steps(
            tokens=generation.max_tokens,
            drafted=self.arguments.draft_tokens,
            length=self.length,
            tokens_per_second=self.settings.tokens_per_second,
        ):
            await self._until(began + step.due)
            if self.killed:
                raise CoreKilled
            if self.aborted.is_set():
                return
            self.meters.observe(step)
            self.observed.step(step, running=self.running, first=first, now=time.monotonic())
            first = False
            yield step

    async def _until(self, moment: float) -> None:
        remaining = moment - time.monotonic()
        if remaining > 0:
            try:
                await asyncio.wait_for(self.aborted.wait(), remaining)
            except TimeoutError:
                return

    def enter(self, generation: Generation) -> None:
        self.running += 1
        self.idle.clear()
        self.meters.running.set(self.running)
        self.meters.prompt_tokens.inc(generation.prompt_tokens)

    def leave(self, reason: str) -> None:
        self.running -= 1
        self.meters.running.set(self.running)
        self.meters.finished[reason].inc()
        self.observed.finished()
        if not self.running:
            self.idle.set()

    async def drain(self) -> bool:
        """Takes no new work and waits for what is in flight; whether it all ended by itself."""
        self.draining = True
        timeout = self.arguments.shutdown_timeout
        try:
            await asyncio.wait_for(self.idle.wait(), timeout)
        except TimeoutError:
            self.killed = timeout > 0
            self.aborted.set()
            return False
        return True


class Routes:
    """The handlers, over one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.numbers = itertools.count()

    def application(self) -> web.Application:
        application = web.Application(client_max_size=16 * 1024**2)
        if self.engine.settings.attestation == "served":
            application.add_routes([web.get(asgi.ATTESTATION, self.attestation), web.get(asgi.READY, self.ready)])
        application.add_routes(
            [
                web.get("/health", self.health),
                web.get("/version", self.version),
                web.get("/metrics", self.metrics),
                web.get("/v1/models", self.models),
                web.post("/v1/completions", self.completions),
                web.post("/v1/chat/completions", self.chat_completions),
            ]
        )
        return application

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.engine.healthy() else 503)

    async def attestation(self, _: web.Request) -> web.Response:
        return web.json_response(self.engine.attested.document())

    async def ready(self, _: web.Request) -> web.Response:
        status, body = asgi.readiness(self.engine.attested, healthy=self.engine.healthy())
        return web.json_response(body, status=status)

    async def version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": version(self.engine.settings.release), "standin": True})

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self.engine.meters.exposition(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def models(self, _: web.Request) -> web.Response:
        arguments = self.engine.arguments
        entries = [
            {
                "id": name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": "engine-standin",
                "root": arguments.model,
                "max_model_len": arguments.max_model_len,
            }
            for name in arguments.served_names
        ]
        return web.json_response({"object": "list", "data": entries})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, "completion")

    async def chat_completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, "chat")

    async def _generate(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        arguments = self.engine.arguments
        try:
            generation = requests.parse(
                await _json(request),
                kind=kind,
                served_names=arguments.served_names,
                max_model_len=arguments.max_model_len,
            )
        except RequestError as error:
            return web.json_response(error.body, status=error.status)
        identity = f"{'chatcmpl' if kind == 'chat' else 'cmpl'}-{next(self.numbers)}"
        # Until the response is under way nothing has been promised, so a drain may begin before or after this line.
        if self.engine.draining:
            return await self._refuse(request, generation, identity)
        self.engine.enter(generation)
        reason = "abort"
        try:
            serve = self._stream if generation.stream else self._whole
            response, reason = await serve(request, generation, identity)
            return response
        finally:
            self.engine.leave(reason)

    async def _refuse(self, request: web.Request, generation: Generation, identity: str) -> web.StreamResponse:
        created = int(time.time())
        if not generation.stream:
            body = requests.answer(generation, identity=identity, created=created, tokens=0, reason="abort")
            return web.json_response(body)
        response = await _open(request)
        await response.write(
            requests.chunk(generation, identity=identity, created=created, content="", reason="abort") + requests.DONE
        )
        await response.write_eof()
        return response

    async def _whole(self, _: web.Request, generation: Generation, identity: str) -> tuple[web.StreamResponse, str]:
        created = int(time.time())
        tokens = 0
        try:
            async for step in self.engine.generate(generation):
                tokens += step.tokens
        except CoreKilled:
            return web.json_response(requests.SERVER_ERROR, status=500), "abort"
        reason = "length" if tokens == generation.max_tokens else "abort"
        body = requests.answer(generation, identity=identity, created=created, tokens=tokens, reason=reason)
        return web.json_response(body), reason

    async def _stream(
        self, request: web.Request, generation: Generation, identity: str
    ) -> tuple[web.StreamResponse, str]:
        created = int(time.time())
        response = await _open(request)
        if generation.kind == "chat":
            await response.write(
                requests.chunk(generation, identity=identity, created=created, content=None, reason=None)
            )
        tokens = 0
        reason = "abort"
        try:
            async for step in self.engine.generate(generation):
                last = tokens + step.tokens == generation.max_tokens
                await response.write(
                    requests.chunk(
                        generation,
                        identity=identity,
                        created=created,
                        content=requests.text(tokens, step.tokens),
                        reason="length" if last else None,
                    )
                )
                tokens += step.tokens
            if tokens == generation.max_tokens:
                reason = "length"
            else:
                await response.write(
                    requests.chunk(generation, identity=identity, created=created, content="", reason="abort")
                )
            if generation.include_usage:
                await response.write(
                    requests.usage_chunk(generation, identity=identity, created=created, tokens=tokens)
                )
            await response.write(requests.DONE)
            await response.write_eof()
        except CoreKilled:
            await response.write(requests.event(requests.SERVER_ERROR) + requests.DONE)
            await response.write_eof()
        except ConnectionResetError:
            # The client went away; the engine aborts such a request too.
            return response, "abort"
        return response, reason


async def _json(request: web.Request) -> object:
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from None


async def _open(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    return response


async def listen(engine: Engine) -> tuple[web.AppRunner, int]:
    """Opens the port; the runner, and the port for those who asked for any (0)."""
    runner = web.AppRunner(
        Routes(engine).application(), access_log=None, shutdown_timeout=CONNECTION_CLOSE_SECONDS, handle_signals=False
    )
    await runner.setup()
    site = web.TCPSite(runner, engine.arguments.host, engine.arguments.port, reuse_address=True)
    await site.start()
    engine.started = time.monotonic()
    return runner, int(runner.addresses[0][1])
