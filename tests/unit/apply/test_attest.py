"""Pods are asked over HTTP: bounded, beside everything else, and only what is new is told.

The pods' side is a real server here, on the loopback address; what it answers is each test's choice.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from misbehaving import drip, endless, never

from specdecode_operator.api import names
from specdecode_operator.apply.attest import TRIES, Attestor, Pace
from specdecode_operator.apply.client import Json
from specdecode_operator.apply.kinds import POD
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Store
from specdecode_operator.plan.testimony import LONGEST, Absent, Answer, Attestation, Garbled, Silence

QUICK = Pace(tick=0.01, loading=0.02, backoff=(0.01,), again=0.05, again_wrong=0.02, timeout=1.0)
TRUTH: dict[str, Any] = {
    "ok": True,
    "release": "0.33.0",
    "manifest_digest": "a" * 64,
    "optimizations": [{"name": "telemetry", "state": "active"}],
    "findings": [],
}
READ = Attestation(True, "0.33.0", "a" * 64, {"telemetry": "active"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Engine:
    """The server that stands for the pods' engines; `answer` may be changed at any time."""

    port: int = 0
    answer: Handler | None = None
    requests: int = 0
    at_once: int = 0
    most_at_once: int = 0
    runner: web.AppRunner | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            assert request.path == names.ATTESTATION_PATH
            if self.answer is not None:
                return await self.answer(request)
            return web.json_response(TRUTH)
        finally:
            self.at_once -= 1

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self.runner.addresses[0][1]

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None


@dataclass
class Watched:
    """The attestor among its surroundings."""

    store: Store
    attestor: Attestor
    told: list[str] = field(default_factory=list)
    version: int = 0

    def pod(self, name: str = "demo-1", *, process: str = "containerd://1", ready: bool = True, **meta: Any) -> Json:
        """Put a pod into the store, as a watch would; the same name again is a newer version of it."""
        self.version += 1
        item: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "serving",
                "uid": name,
                "resourceVersion": str(self.version),
                "labels": {names.LABEL_NAME: "demo", names.LABEL_SERVES: "true"},
                **meta,
            },
            "spec": {"containers": [{"name": "engine", "env": [{"name": names.ENV_EXPECT_MANIFEST, "value": "a"}]}]},
            "status": {
                "podIP": "127.0.0.1",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [{"name": "engine", "containerID": process, "state": {"running": {}}}],
            },
        }
        self.store.seen(POD, item)
        return item

    def said(self, pod: Json) -> Answer | None:
        return self.attestor.answers([pod]).get(pod["metadata"]["uid"])

    async def hears(self, pod: Json, expected: object) -> None:
        """Wait until that is what the pod has said; a type stands for all of its kind."""

        def heard() -> bool:
            answer = self.said(pod)
            if answer is None:
                return False
            return isinstance(answer.said, expected) if isinstance(expected, type) else answer.said == expected

        await until(heard, lambda: f"expected {expected}, said {self.said(pod)}")


async def until(condition: Callable[[], bool], why: Callable[[], str] = lambda: "it never came") -> None:
    for _ in range(4000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(why())


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
async def watched(engine: Engine) -> AsyncIterator[Watched]:
    store = Store(lambda _: None)
    told: list[str] = []
    attestor = Attestor(store, lambda pod: told.append(pod["metadata"]["name"]), Meters(), pace=QUICK, port=engine.port)
    task = asyncio.create_task(attestor.run())
    yield Watched(store, attestor, told)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def answering(response: Callable[[], web.StreamResponse]) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return response()

    return answer


# --- What is told -----------------------------------------------------------------------------------------------------


async def test_an_attestation_is_read_and_its_owner_woken(watched: Watched) -> None:
    pod = watched.pod()
    await watched.hears(pod, READ)
    assert watched.said(pod) == Answer("containerd://1", READ)
    assert watched.told == ["demo-1"]


async def test_the_same_answer_again_wakes_nobody(watched: Watched, engine: Engine) -> None:
    watched.pod()
    await until(lambda: engine.requests >= 5)
    assert watched.told == ["demo-1"]


async def test_an_answer_that_changes_in_the_same_process_is_told(watched: Watched, engine: Engine) -> None:
    pod = watched.pod()
    await watched.hears(pod, READ)
    engine.answer = answering(lambda: web.json_response({**TRUTH, "manifest_digest": "b" * 64}))
    await watched.hears(pod, Attestation(True, "0.33.0", "b" * 64, {"telemetry": "active"}))
    assert watched.told == ["demo-1", "demo-1"]


async def test_what_one_process_attested_is_not_the_next_ones(watched: Watched, engine: Engine) -> None:
    pod = watched.pod()
    await watched.hears(pod, READ)
    engine.answer = never
    restarted = watched.pod(process="containerd://2", ready=False)
    await until(lambda: watched.said(restarted) is None)
    engine.answer = None
    await watched.hears(restarted, READ)
    assert watched.said(restarted) == Answer("containerd://2", READ)


async def test_a_pod_that_is_gone_is_forgotten_and_asked_no_more(watched: Watched, engine: Engine) -> None:
    pod = watched.pod()
    await watched.hears(pod, READ)
    watched.store.gone(POD, pod)
    await until(lambda: watched.said(pod) is None)
    seen = engine.requests
    other = watched.pod("demo-2")
    await watched.hears(other, READ)
    await until(lambda: engine.requests >= seen + 3)
    assert watched.said(pod) is None


async def test_a_pod_on_its_way_out_is_not_asked(watched: Watched) -> None:
    leaving = watched.pod("demo-1", deletionTimestamp="2026-01-01T00:00:00Z")
    await watched.hears(watched.pod("demo-2"), READ)
    assert watched.said(leaving) is None


async def test_only_pods_that_were_told_what_to_expect_are_asked(watched: Watched) -> None:
    follows = {names.LABEL_NAME: "demo", names.LWS_GROUP_KEY: "g", names.LWS_WORKER_INDEX: "1"}
    stock, follower = watched.pod("stock"), watched.pod("follower", labels=follows)
    stock["spec"]["containers"][0]["env"] = []
    await watched.hears(watched.pod("demo-2"), READ)
    assert watched.said(follower) is None
    assert watched.said(stock) is None


# --- Pods that misbehave ----------------------------------------------------------------------------------------------


async def test_a_stock_engine_says_that_it_lacks_the_path(watched: Watched, engine: Engine) -> None:
    engine.answer = answering(lambda: web.Response(status=404))
    await watched.hears(watched.pod(ready=False), Absent(404))


@pytest.mark.parametrize("answer", [never, drip], ids=["never answers", "drips"])
async def test_a_pod_that_takes_too_long_is_silent_and_holds_no_other_up(
    watched: Watched, engine: Engine, answer: Handler
) -> None:
    slow = watched.pod("slow")
    engine.answer = answer
    await watched.hears(slow, Silence("nothing within 1 s"))
    assert watched.told == ["slow"], "its silence is told once"
    engine.answer = None
    await watched.hears(slow, READ)


async def test_of_an_answer_without_end_only_the_beginning_is_read(watched: Watched, engine: Engine) -> None:
    engine.answer = endless
    await watched.hears(watched.pod(), Garbled(f"more than {LONGEST // 1024} KiB"))


async def test_a_bomb_is_not_unpacked(watched: Watched, engine: Engine) -> None:
    packed = gzip.compress(json.dumps({**TRUTH, "pad": " " * 10_000_000}).encode())
    engine.answer = answering(lambda: web.Response(body=packed, headers={"Content-Encoding": "gzip"}))
    await watched.hears(watched.pod(), Garbled("something that isn't JSON"))


async def test_no_redirect_is_followed(watched: Watched, engine: Engine) -> None:
    async def away(request: web.Request) -> web.StreamResponse:
        assert request.path == names.ATTESTATION_PATH, "it went where it was sent"
        raise web.HTTPFound("/secrets")

    engine.answer = away
    await watched.hears(watched.pod(), Silence("it answers 302"))


async def test_an_engine_that_refuses_connections_while_it_loads_is_not_silent(
    watched: Watched, engine: Engine
) -> None:
    await engine.stop()
    loading = watched.pod(ready=False)
    meters = watched.attestor._meters.attestations.labels("none")
    await until(lambda: meters._value.get() >= 3 * TRIES)
    assert watched.said(loading) is None
    assert watched.told == []
    ready = watched.pod(ready=True)
    await watched.hears(ready, Silence)
    await engine.start()
    await watched.hears(ready, READ)


async def test_a_pod_that_attested_and_is_then_too_busy_to_answer_stays_as_it_was(
    watched: Watched, engine: Engine
) -> None:
    pod = watched.pod()
    await watched.hears(pod, READ)
    engine.answer = never
    meters = watched.attestor._meters.attestations.labels("none")
    await until(lambda: meters._value.get() >= TRIES + 1)
    assert watched.said(pod) == Answer("containerd://1", READ)
    assert watched.told == ["demo-1"]


async def test_so_many_silent_pods_leave_the_others_their_turn(watched: Watched, engine: Engine) -> None:
    engine.answer = never
    for number in range(100):
        watched.pod(f"silent-{number}")
    await until(lambda: engine.at_once >= 20)
    engine.answer = None
    late = watched.pod("late")
    await watched.hears(late, READ)
    assert engine.most_at_once <= 32


async def test_a_name_that_is_no_address_breaks_nothing(watched: Watched) -> None:
    broken = watched.pod("broken")
    broken["status"]["podIP"] = "]["
    await watched.hears(watched.pod("demo-2"), READ)
    assert watched.said(broken) is None or isinstance(watched.attestor.answers([broken])["broken"].said, Silence)
