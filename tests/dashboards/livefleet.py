"""What dashboards are looked at with: stand-in engines under load and an operator's registry, scraped each second.

The engines run the real telemetry code on recorded steps. The operator's statuses come from its own planner, which is
in the middle of a canary of `chat`, whose last one failed, and can't begin with `code`. What the canary's newest look
says is made up.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from aiohttp import web
from builders import OTHER_IMAGE, DeploymentBuilder, deployment
from canaries import CanaryFleet, canary
from fleet import Fleet, Json
from prometheusprocess import WAIT, Prometheus, free_port
from waiting import await_that

from engine_standin import arguments
from engine_standin.observed import attested
from engine_standin.server import Engine, listen
from engine_standin.settings import Settings
from specdecode_dashboards.records import REVISION, records
from specdecode_operator import health
from specdecode_operator.api.status import Status
from specdecode_operator.apply import kinds
from specdecode_operator.apply.client import ApiError, Unreachable
from specdecode_operator.apply.meters import PREFIX, Meters
from specdecode_operator.apply.store import Key, Store
from specdecode_operator.apply.watch import Watch
from specdecode_operator.build import runrecord
from specdecode_operator.build.owner import Owner
from specdecode_operator.queue import WorkQueue

RULES = Path(__file__).resolve().parents[2] / "charts/specdecode-operator/rules/specdecode.yaml"
NAMESPACE = "team"
DRAFTED = 3
SLOWER = 2.0
"""Factor on the candidate's host time of a proposal."""
SCRAPE = "1s"
SPECULATIVE = f'{{"method":"eagle3","num_speculative_tokens":{DRAFTED}}}'

COUNTED = {"reconcile_errors_total": 2, "writes_total": 2, "attestation_requests_total": 2, "watch_restarts_total": 1}
"""Series that the operator's counters get as it works; they are there from the first time on."""

T = TypeVar("T")


# --- What the operator has planned ------------------------------------------------------------------------------------


def _deployment(name: str, start: DeploymentBuilder | None = None) -> DeploymentBuilder:
    wide = (start or deployment(name)).named(name, NAMESPACE).on("gb200").set("spec.parallelism", {"tensor": 4})
    return wide.drafting("eagle3", "pvc://weights/draft", DRAFTED).replicas(3).behind("edge")


def judging() -> CanaryFleet:
    """Three slots, of which a candidate has one, in the route; the candidate before it has failed."""
    fleet = CanaryFleet.of(_deployment("chat", canary(steps=[{"slots": 1}])))
    assert isinstance(fleet, CanaryFleet)
    fleet.now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    fleet.settle()
    fleet.edit(lambda sdd: sdd.set("spec.engine.optimizations", {"disable": ["uniform-mamba-metadata"]}))
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    fleet.edit(lambda sdd: sdd.set("spec.engine.optimizations", {"disable": []}).image(OTHER_IMAGE))
    fleet.sees = "Measuring"
    fleet.until("Measuring")
    return fleet


def look(run: str) -> Json:
    """The record of a run whose newest look has a gate that is open and one that has passed."""
    gates = [
        {"gate": "drafter", "outcome": "Inconclusive", "reason": "Measuring", "margin": 0.02, "estimate": 0.004,
         "interval": [-0.014, 0.023]},
        {"gate": "acceptance", "outcome": "Pass", "reason": "WithinMargin", "margin": 0.05, "estimate": -0.006,
         "interval": [-0.031, 0.02]},
    ]  # fmt: skip
    line = json.dumps({"window": 14, "gates": gates}).encode()
    return runrecord.build(Owner("chat", NAMESPACE, "uid"), run, {}, {runrecord.looks_file(0): gzip.compress(line)})


def held() -> Fleet:
    """A candidate that the API server refuses, beside three slots that serve."""
    fleet = Fleet.of(_deployment("code"))
    fleet.settle()
    fleet.refused_images.add(OTHER_IMAGE)
    fleet.edit(lambda sdd: sdd.image(OTHER_IMAGE))
    fleet.round()
    return fleet


FLEETS = {"chat": judging(), "code": held()}
STATUSES: dict[str, Status] = {name: fleet.parsed().status for name, fleet in FLEETS.items()}


# --- Engines ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pod:
    """One engine: of which revision, and in which way it is special."""

    name: str
    object: str
    revision: str
    settings: Settings
    switched_off: str = ""

    @property
    def labels(self) -> dict[str, str]:
        return {
            "namespace": NAMESPACE,
            "pod": self.name,
            "pod_uid": f"uid-{self.name}",
            "node": f"node-{self.name}",
            "specdecode_name": self.object,
            "specdecode_revision": self.revision,
        }

    def engine(self) -> Engine:
        line = ["/models/chat", "--host", "127.0.0.1", "--port", "0", "--served-model-name", self.object]
        checked = attested(self.settings, {"SPECDECODE_DISABLE": self.switched_off})
        return Engine(arguments.parse([*line, "--speculative-config", SPECULATIVE]), self.settings, checked)


def _revision(name: str, arm: str) -> str:
    held = getattr(STATUSES[name], arm)
    assert held is not None
    revision: str = held.revision
    return revision


PACE = 60.0
CANDIDATE = Settings(tokens_per_second=PACE, acceptance_length=2.2, span_factors=f"propose_host={SLOWER}")
STABLE = Settings(tokens_per_second=PACE, acceptance_length=2.6)
PODS = (
    Pod("chat-a", "chat", _revision("chat", "stable"), STABLE),
    Pod("chat-b", "chat", _revision("chat", "stable"), STABLE),
    Pod("chat-c", "chat", _revision("chat", "candidate"), CANDIDATE, switched_off="uniform-mamba-metadata"),
    Pod("code-a", "code", _revision("code", "stable"), Settings(tokens_per_second=PACE, release="0.30.0")),
)
CLIENTS = 3
"""Requests at once, for each engine."""


# --- All of it --------------------------------------------------------------------------------------------------------


class LiveFleet:
    """Engines, clients and an operator, in a thread of their own."""

    def __init__(self) -> None:
        self.meters = Meters()
        self.ports: dict[str, int] = {}
        self.operator_port = free_port()
        self.watches: list[Watch] = []
        self._runners: list[web.AppRunner] = []
        self._jobs: list[asyncio.Task[None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def start(self) -> None:
        for pod in PODS:
            runner, port = await listen(pod.engine())
            self._runners.append(runner)
            self.ports[pod.name] = port
        await self._start_operator()

    async def _start_operator(self) -> None:
        store = Store(lambda _: None)
        for fleet in FLEETS.values():
            for pod in fleet.pods.values():
                store.seen(kinds.POD, {**pod, "metadata": {**pod["metadata"], "namespace": NAMESPACE}})
        self.watches = [
            Watch(api=None, store=store, kind=kind, namespace=None, meters=self.meters)  # type: ignore[arg-type]
            for kind in kinds.WATCHED
        ]
        watchdog = health.Watchdog(watches=self.watches, busy=lambda: 0.0, max_age=300, deadline=100)
        self._runners += await health.serve(
            watchdog, self.meters, health_port=free_port(), metrics_port=self.operator_port
        )
        for name, status in STATUSES.items():
            run = status.run.id if status.run else None
            self.meters.reported.saw(Key(NAMESPACE, name), status, look(run) if run else None)

    async def load(self) -> None:
        """Begin to serve, and to reconcile."""
        for pod in PODS:
            for number in range(CLIENTS):
                self._jobs.append(asyncio.create_task(self._client(pod, 24 + 16 * number)))
        self._jobs.append(asyncio.create_task(self._reconciles()))

    async def _client(self, pod: Pod, tokens: int) -> None:
        url = f"http://127.0.0.1:{self.ports[pod.name]}/v1/completions"
        async with aiohttp.ClientSession() as session:
            while True:
                body = {"model": pod.object, "prompt": "a b c", "max_tokens": tokens}
                async with session.post(url, json=body) as response:
                    assert response.status == 200

    async def _reconciles(self) -> None:
        """The operator's own queue, with work that sometimes fails and otherwise counts what a reconcile counts."""
        numbers = itertools.count()

        async def work(key: Key) -> None:
            number = next(numbers)
            await asyncio.sleep(0.01)
            if number % 20 == 2:
                raise ApiError(500, {"reason": "InternalError", "message": "etcdserver: request timed out"})
            if number % 20 == 5:
                raise Unreachable("the connection is refused")
            self.meters.writes.labels("ReplicaSet", "apply").inc()
            self.meters.writes.labels(kinds.SDD.kind, "status").inc()
            self.meters.attestations.labels("attestation" if number % 3 else "none").inc()
            self.meters.watch_restarts.labels("Pod", "ended").inc(number % 2)

        queue = WorkQueue(work, self.meters, workers=2)
        self._jobs.append(asyncio.create_task(queue.run()))
        for second in itertools.count():
            for name in STATUSES:
                queue.add(Key(NAMESPACE, name))
            for watch in self.watches if second % 8 == 0 else ():
                watch.heard = time.monotonic()
            await asyncio.sleep(1)

    async def _end(self) -> None:
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        for runner in self._runners:
            with contextlib.suppress(RuntimeError):
                await runner.cleanup()

    def stop(self) -> None:
        self.do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def configuration(self, rules: Path) -> dict[str, Any]:
        """Of a Prometheus that scrapes all of it and evaluates rules."""
        engines = [{"targets": [f"127.0.0.1:{self.ports[pod.name]}"], "labels": pod.labels} for pod in PODS]
        operator = {"targets": [f"127.0.0.1:{self.operator_port}"], "labels": {"namespace": "specdecode-system"}}
        return {
            "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": SCRAPE},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "engines", "static_configs": engines},
                {"job_name": "operator", "honor_labels": True, "static_configs": [operator]},
            ],
        }


@contextlib.contextmanager
def scraped(folder: Path, *, scrapes: int = 4, window: str = "5m") -> Iterator[Prometheus]:
    """A Prometheus that has seen the fleet at rest, then under load for so many scrapes, and has recorded it all.

    The rules are the chart's, but that their rates are over `window`.
    """
    fleet = LiveFleet()
    prometheus = Prometheus(folder)
    try:
        fleet.do(fleet.start())
        rules = folder / "rules.yaml"
        rules.write_text(RULES.read_text().replace("[5m]", f"[{window}]"))
        prometheus.write(fleet.configuration(rules))
        prometheus.start()
        await_that(
            "everything is scraped", lambda: prometheus.query(f"count(up == 1) == {len(PODS) + 1}"), seconds=WAIT
        )
        fleet.do(fleet.load())
        await_that(
            f"{scrapes} scrapes under load, and all of it recorded",
            lambda: _complete(prometheus, scrapes),
            seconds=WAIT,
        )
        yield prometheus
    finally:
        prometheus.stop()
        fleet.stop()


def _complete(prometheus: Prometheus, scrapes: int) -> bool:
    """Whether all was there a second ago, a number for each rule and revision too; then queries are evaluated there.

    What comes later changes nothing: a scrape that a busy machine makes late ends no series.
    """
    prometheus.at = time.time() - 1
    revisions = len({(pod.object, pod.revision) for pod in PODS})
    wanted = [
        f"count(up == 1) == {len(PODS) + 1}",
        f"count(count_over_time(vllm:generation_tokens_total[10m]) > {scrapes}) == {len(PODS)}",
        *(f"count(rate({PREFIX}_{counter}[1m])) >= {series}" for counter, series in COUNTED.items()),
        *(
            f"count(count by ({REVISION}) ({record.name}{_matchers(record.labels)} > 0)) >= {revisions}"
            for record in records()
        ),
    ]
    return all(prometheus.query(each) for each in wanted)


def _matchers(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
