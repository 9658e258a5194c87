"""Pods that are only an exporter: what each does wrong, and when, is a function of the time it is asked."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from specdecode_operator.gates.windows import Grid

SPAN = "specdecode_propose_host_seconds"
RATE = 100
"""Steps in a second, of 2 ms each."""
BORN = 3600.0
"""Seconds before the exporters' own start from which their processes are."""


@dataclass(frozen=True)
class Page:
    """What a pod says at one time."""

    steps: int
    born: float | None
    factor: float = 0.002
    start: str = "process_start_time_seconds"
    span: bool = True

    def text(self) -> str:
        labels = 'model_name="chat",engine="0"'
        cell = f'{labels},step="decode",batch="4"'
        rows = [
            f'specdecode_engine_info{{{labels},manifest_digest="sha256:old",sample_every="8"}} 1',
            f"specdecode_requests_finished_total{{{labels}}} {self.steps // 50}",
        ]
        if self.born is not None:
            rows.append(f"{self.start} {self.born!r}")
        if self.span:
            rows += [
                f"{SPAN}_count{{{cell}}} {self.steps}",
                f"{SPAN}_sum{{{cell}}} {self.steps * self.factor}",
            ]
        return "".join(f"{row}\n" for row in rows)


@dataclass
class Exporters:
    """All pods behind one port, `/<uid>` each, in a thread of their own."""

    port: int = 0
    grid: Grid | None = None
    """Set once everything is scraped; what goes wrong does so in its second window."""
    began: float = field(default_factory=time.time)
    served: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Steps as they were told, by pod."""

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    async def _start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/{uid}", self._handle)
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

    async def _handle(self, request: web.Request) -> web.Response:
        uid = request.match_info["uid"]
        page = PODS[uid](self, time.time())
        if page is None:
            return web.Response(status=500)
        self.served[uid].append(page.steps)
        return web.Response(text=page.text(), content_type="text/plain")

    @property
    def event(self) -> float:
        """The middle of the second window; never, before the grid is there."""
        return sum(self.grid.ends(1)) / 2 if self.grid else math.inf

    @property
    def born(self) -> float:
        """When the processes started that answer from the event on: a start takes its time."""
        return self.event - 1

    def in_second(self, now: float) -> bool:
        """Whether it is the second window."""
        return self.grid is not None and self.grid.ends(1)[0] <= now < self.grid.ends(1)[1]

    def steady(self, now: float) -> Page:
        return Page(steps=int((now - self.began + BORN) * RATE), born=self.began - BORN)

    def anew(self, now: float, born: float | None = None) -> Page:
        """Counters that began at the event."""
        return Page(steps=int((now - self.event) * RATE), born=born)


def _restarted(all_: Exporters, now: float) -> Page:
    return all_.anew(now, all_.born) if now >= all_.event else all_.steady(now)


def _reset(all_: Exporters, now: float) -> Page:
    return all_.anew(now, all_.began - BORN) if now >= all_.event else all_.steady(now)


def _mute(all_: Exporters, now: float) -> Page | None:
    return None if all_.in_second(now) else all_.steady(now)


def _thinned(all_: Exporters, now: float) -> Page:
    page = all_.steady(now)
    return Page(page.steps, page.born, span=not all_.in_second(now))


def _undefined(all_: Exporters, now: float) -> Page:
    page = all_.steady(now)
    return Page(page.steps, page.born, factor=math.nan if all_.in_second(now) else 0.002)


def _own(all_: Exporters, now: float) -> Page:
    page = all_.steady(now)
    return Page(page.steps, page.born, start="specdecode_start_time_seconds")


def _unborn(all_: Exporters, now: float) -> Page:
    return Page(all_.steady(now).steps, None)


PODS: dict[str, Callable[[Exporters, float], Page | None]] = {
    "steady": Exporters.steady,
    "restarted": _restarted,
    "reset": _reset,
    "mute": _mute,
    "thinned": _thinned,
    "undefined": _undefined,
    "own": _own,
    "unborn": _unborn,
    "twice": Exporters.steady,
    "before": Exporters.steady,
    "after": lambda all_, now: all_.anew(now, all_.born),
    "other": Exporters.steady,
}
