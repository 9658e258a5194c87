"""The watchdog and the two ports: /healthz for the kubelet, /metrics for Prometheus.

A task that lives proves nothing (kopf#1276): what counts is that every watch has given a sign of life, that no
reconcile hangs, and that kopf has delivered what the API server has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import exposition

from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.watch import Watch


@dataclass
class Watchdog:
    """Says what is wrong with this process, if anything."""

    watches: Iterable[Watch]
    busy: Callable[[], float]
    """Seconds that the longest running reconcile has taken."""
    max_age: float
    deadline: float
    stale: dict[str, str] = field(default_factory=dict)
    """What others found wrong, by who found it; kopf's check puts its finding here and takes it away."""

    def faults(self) -> list[str]:
        """What is wrong, in words; empty if nothing is."""
        unlisted = [watch for watch in self.watches if not watch.synced.is_set()]
        found = [f"{watch.kind.plural} in {watch.where} haven't been listed yet" for watch in unlisted]
        found += [
            f"the watch of {watch.kind.plural} in {watch.where} has been silent for {watch.age:.0f} s"
            for watch in self.watches
            if watch.age > self.max_age
        ]
        if self.busy() > 2 * self.deadline:
            found.append(f"a reconcile has been running for {self.busy():.0f} s")
        return [*found, *self.stale.values()]

    def measure(self, meters: Meters) -> None:
        """Put ages and sizes into the metrics."""
        ages: dict[str, float] = {}
        for watch in self.watches:
            ages[watch.kind.kind] = max(ages.get(watch.kind.kind, 0.0), watch.age)
            meters.held.labels(watch.kind.kind).set(watch.store.count(watch.kind))
        for kind, age in ages.items():
            meters.watch_age.labels(kind).set(age)


async def serve(watchdog: Watchdog, meters: Meters, *, health_port: int, metrics_port: int) -> list[web.AppRunner]:
    """Open both ports; the runners are to be cleaned up at the end."""

    async def healthz(_: web.Request) -> web.Response:
        faults = watchdog.faults()
        return web.Response(status=503 if faults else 200, text="\n".join(faults or ["ok"]) + "\n")

    async def metrics(_: web.Request) -> web.Response:
        watchdog.measure(meters)
        body = exposition.generate_latest(meters.registry)
        return web.Response(body=body, headers={"Content-Type": exposition.CONTENT_TYPE_LATEST})

    return [await _open("/healthz", healthz, health_port), await _open("/metrics", metrics, metrics_port)]


async def _open(path: str, answer: Callable[[web.Request], object], port: int) -> web.AppRunner:
    app = web.Application()
    app.router.add_get(path, answer)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner
