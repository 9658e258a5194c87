"""Pods as a Prometheus has them, raw, and a stand-in for that Prometheus: an HTTP server that answers from a list."""

from __future__ import annotations

import json
import math
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from specdecode_operator.gates.windows import Grid
from specdecode_operator.metrics.answer import Point, Series
from specdecode_operator.metrics.prometheus import Limits
from specdecode_operator.metrics.query import Metric, Question

SPAN = "specdecode_propose_host_seconds"
COUNT, SUM, BUCKET = f"{SPAN}_count", f"{SPAN}_sum", f"{SPAN}_bucket"
GRID = Grid(start=1000.0, seconds=30.0, count=3, scrape_interval=10.0)
TIMES = tuple(985.0 + 10 * n for n in range(12))
BORN = 500.0
QUESTION = Question(namespace="team", name="chat", grid=GRID, metrics=(Metric(SPAN),))
PATIENT = Limits(deadline=600.0, attempt=300.0)
"""For tests that aren't about time, on a machine that may be busy."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Change = Callable[[list[Series]], list[Series]]


def series(name: str, values: Iterable[Point], uid: str = "uid-1", **labels: str) -> Series:
    """One series of a pod, with the labels of its target."""
    target = {
        "namespace": "team",
        "pod": f"chat-{uid}",
        "pod_uid": uid,
        "node": f"node-{uid}",
        "specdecode_name": "chat",
        "specdecode_revision": "old",
        "job": "engines",
    }
    return Series({"__name__": name, **target, **labels}, tuple(values))


def pod(uid: str = "uid-1", times: Iterable[float] = TIMES, born: float = BORN, **labels: str) -> list[Series]:
    """A pod that does ten steps of 2 ms each second and finishes a request every five."""
    times = tuple(times)
    engine = {"model_name": "chat", "engine": "0"}
    info = {"manifest_digest": "sha256:old", "sample_every": "8"}
    steps = [(time, 10 * (time - born)) for time in times]
    span = {"step": "decode", "batch": "4", **engine, **labels}
    return [
        series("up", [(time, 1.0) for time in times], uid, **labels),
        series("process_start_time_seconds", [(time, born) for time in times], uid, **labels),
        series("specdecode_engine_info", [(time, 1.0) for time in times], uid, **{**engine, **info, **labels}),
        series("specdecode_requests_finished_total", [(t, (t - born) / 5) for t in times], uid, **{**engine, **labels}),
        series(COUNT, steps, uid, **span),
        series(SUM, [(time, 0.002 * count) for time, count in steps], uid, **span),
    ]


# --- What may happen to it --------------------------------------------------------------------------------------------


def every(names: Iterable[str], change: Callable[[Point], Point | None]) -> Change:
    """Each point of these series changed, or gone."""
    wanted = set(names)

    def changed(found: list[Series]) -> list[Series]:
        return [
            replace(one, points=tuple(new for point in one.points if (new := change(point)) is not None))
            if one.labels["__name__"] in wanted
            else one
            for one in found
        ]

    return changed


def without(*names: str) -> Change:
    return lambda found: [one for one in found if one.labels["__name__"] not in names]


def relabelled(names: Iterable[str], **labels: str) -> Change:
    wanted = set(names)
    return lambda found: [
        replace(one, labels={**one.labels, **labels}) if one.labels["__name__"] in wanted else one for one in found
    ]


def once_more(names: Iterable[str], **labels: str) -> Change:
    """These series a second time, with other labels."""
    wanted = set(names)
    return lambda found: [
        *found,
        *(replace(one, labels={**one.labels, **labels}) for one in found if one.labels["__name__"] in wanted),
    ]


# --- The stand-in -----------------------------------------------------------------------------------------------------


@dataclass
class Standin:
    """Answers instant queries for raw samples from its series; `answer` takes its place while it is set."""

    series: list[Series] = field(default_factory=list)
    answer: Handler | None = None
    obeys: bool = True
    """Whether it looks at labels; a liar gives what it has."""
    requests: int = 0
    queries: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    port: int = 0
    runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", self.port, ssl_context=tls).start()
        self.port = self.runner.addresses[0][1]

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()
            self.runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        self.queries.append(request.query["query"])
        self.headers.append(request.headers)
        return await (self.answer or self.truth)(request)

    async def truth(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.document(request.query["query"]))

    def document(self, query: str) -> dict[str, Any]:
        """The answer to a query, as the API documents it."""
        since, until = _span(query)
        rows = [
            {
                "metric": dict(one.labels),
                "values": [[time, _text(value)] for time, value in one.points if since < time <= until],
            }
            for one in self.series
            if _matches(query, one.labels, obeys=self.obeys)
        ]
        return {"status": "success", "data": {"resultType": "matrix", "result": [row for row in rows if row["values"]]}}


def _span(query: str) -> tuple[float, float]:
    found = re.search(r"\}\[(\d+)(ms|s)\] @ ([0-9.]+)$", query)
    assert found, query
    until = float(found[3])
    return until - int(found[1]) * (0.001 if found[2] == "ms" else 1.0), until


def _matches(query: str, labels: Mapping[str, str], *, obeys: bool) -> bool:
    matchers = re.findall(r'(\w+)(=~|=)("(?:[^"\\]|\\.)*")', query)
    assert matchers, query
    for label, operator, quoted in matchers:
        value, found = json.loads(quoted), labels.get(label, "")
        if (obeys or label == "__name__") and not (re.fullmatch(value, found) if operator == "=~" else value == found):
            return False
    return True


def _text(value: float) -> str:
    return "NaN" if math.isnan(value) else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))
