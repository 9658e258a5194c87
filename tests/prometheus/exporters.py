"""Pods that are only what they say when they are scraped: what each does wrong, and when, is a function of the time.

Their past is told on one page, each sample with its time, so that a single scrape brings it whole; `live` is scraped as
pods are. A past that is waited for takes as long as its windows, and is another one when a scrape comes late.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from aiohttp import web

from specdecode_operator.gates.windows import Grid

SPAN = "specdecode_propose_host_seconds"
RATE = 100
"""Steps in a second, of 2 ms each."""
STEP = 0.002
AGE = 3600.0
"""Seconds before the first window from which the processes are."""


@dataclass(frozen=True)
class Page:
    """What a pod says at one time."""

    steps: int = 0
    born: float | None = None
    up: bool = True
    step: float = STEP
    start: str = "process_start_time_seconds"
    span: bool = True

    def rows(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """(name, labels, value), all that Prometheus has of one scrape but for `up`."""
        labels = {"model_name": "chat", "engine": "0"}
        cell = {**labels, "step": "decode", "batch": "4"}
        yield "specdecode_engine_info", {**labels, "manifest_digest": "sha256:old", "sample_every": "8"}, 1
        yield "specdecode_requests_finished_total", labels, self.steps // 50
        if self.born is not None:
            yield self.start, {}, self.born
        if self.span:
            yield f"{SPAN}_count", cell, self.steps
            yield f"{SPAN}_sum", cell, self.steps * self.step


DOWN = Page(up=False)


@dataclass(frozen=True)
class Past:
    """Windows that are over. What goes wrong does so in the second; in its middle, if it is a moment."""

    grid: Grid

    @property
    def born(self) -> float:
        """When the processes started."""
        return self.grid.start - AGE

    @property
    def event(self) -> float:
        return sum(self.grid.ends(1)) / 2

    @property
    def born_anew(self) -> float:
        """When the processes started that answer from the event on: a start takes its time."""
        return self.event - 1

    def in_second(self, now: float) -> bool:
        start, end = self.grid.ends(1)
        return start <= now < end

    def steady(self, now: float) -> Page:
        return Page(steps=round((now - self.born) * RATE), born=self.born)

    def anew(self, now: float, born: float) -> Page:
        """Counters that began at the event."""
        return Page(steps=round((now - self.event) * RATE), born=born)

    def times(self, offset: float) -> Iterator[float]:
        """When a pod was scraped that is so many seconds behind the windows' ends, from before the first on."""
        interval = self.grid.scrape_interval
        for scrape in range(-2, int(self.grid.count * self.grid.seconds / interval) + 1):
            yield self.grid.start + scrape * interval + offset

    def text(self) -> str:
        """All of it in Prometheus' text format."""
        rows: list[str] = []
        for number, (uid, page_at) in enumerate(PODS.items()):
            for job in JOBS.get(uid, (uid,)):
                # Rows come in the order of time, and pods at any time of the interval.
                for now in self.times(number * self.grid.scrape_interval / len(PODS)):
                    page = page_at(self, now)
                    rows += _told(page, {**target(uid), "job": job}, now) if page is not None else ()
        return "".join(f"{row}\n" for row in rows)


def _told(page: Page, labels: Mapping[str, str], now: float) -> Iterator[str]:
    yield row("up", labels, int(page.up), now)
    if page.up:
        for name, own, value in page.rows():
            yield row(name, {**labels, **own}, value, now)


def row(name: str, labels: Mapping[str, str], value: float, now: float | None = None) -> str:
    selector = ",".join(f'{label}="{text}"' for label, text in labels.items())
    time = "" if now is None else f" {round(1000 * now)}"
    return f"{name}{{{selector}}} {'NaN' if math.isnan(value) else repr(value)}{time}"


def target(uid: str) -> dict[str, str]:
    """What discovery says of a pod."""
    return {
        "namespace": "team",
        "pod": f"chat-{uid}",
        "pod_uid": uid,
        "node": f"node-{uid}",
        "specdecode_name": "chat",
        "specdecode_revision": REVISIONS.get(uid, "old"),
    }


def _restarted(past: Past, now: float) -> Page:
    return past.anew(now, past.born_anew) if now >= past.event else past.steady(now)


def _reset(past: Past, now: float) -> Page:
    return past.anew(now, past.born) if now >= past.event else past.steady(now)


def _mute(past: Past, now: float) -> Page:
    return DOWN if past.in_second(now) else past.steady(now)


def _thinned(past: Past, now: float) -> Page:
    return replace(past.steady(now), span=not past.in_second(now))


def _undefined(past: Past, now: float) -> Page:
    return replace(past.steady(now), step=math.nan if past.in_second(now) else STEP)


def _own(past: Past, now: float) -> Page:
    return replace(past.steady(now), start="specdecode_start_time_seconds")


def _unborn(past: Past, now: float) -> Page:
    return replace(past.steady(now), born=None)


def _before(past: Past, now: float) -> Page | None:
    return past.steady(now) if now < past.event else None


def _after(past: Past, now: float) -> Page | None:
    return past.anew(now, past.born_anew) if now >= past.event else None


PODS: dict[str, Callable[[Past, float], Page | None]] = {
    "steady": Past.steady,
    "restarted": _restarted,
    "reset": _reset,
    "mute": _mute,
    "thinned": _thinned,
    "undefined": _undefined,
    "own": _own,
    "unborn": _unborn,
    "twice": Past.steady,
    "before": _before,
    "after": _after,
    "other": Past.steady,
}
"""What a scrape of each pod brings; None where nobody asked it."""
JOBS = {"twice": ("twice", "twice-again")}
REVISIONS = {"other": "new", "live": "live"}


@dataclass
class Exporters:
    """`/past` and `/live`, in a thread of their own."""

    past: Past
    port: int = 0
    served: list[int] = field(default_factory=list)
    """Steps as `live` told them: one more each time that it is asked."""

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/past", self._past)
        app.router.add_get("/live", self._live)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        return runner

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _past(self, _: web.Request) -> web.Response:
        return web.Response(text=self.past.text(), content_type="text/plain")

    async def _live(self, _: web.Request) -> web.Response:
        self.served.append(len(self.served) + 1)
        page = Page(steps=self.served[-1], born=self.past.born)
        text = "".join(f"{row(*one)}\n" for one in page.rows())
        return web.Response(text=text, content_type="text/plain")
