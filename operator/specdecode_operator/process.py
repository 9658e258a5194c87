"""The process: client, watches, queue, kopf and ports, put together; started in order, stopped in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from specdecode_operator import handlers, health
from specdecode_operator.apply import kinds
from specdecode_operator.apply.attest import Attestor
from specdecode_operator.apply.canary import Canaries
from specdecode_operator.apply.client import Api, ApiError, NotFound, Unreachable, connect
from specdecode_operator.apply.events import Recorder
from specdecode_operator.apply.execute import Executor
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.reconcile import Reconciler
from specdecode_operator.apply.store import Key, Store, owner_of
from specdecode_operator.apply.watch import Watch
from specdecode_operator.plan.validate import Allowed
from specdecode_operator.queue import WorkQueue
from specdecode_operator.sampling import Sampler
from specdecode_operator.settings import Settings

logger = logging.getLogger(__name__)

CHECK: Final = 20.0
"""Seconds between two looks at whether kopf has delivered what the API server has."""
CHECK_AGAIN: Final = 3.0
"""Seconds until the second look, once the first has found kopf behind: an event may have been on its way."""
PATIENCE: Final = 3
"""Starts of kopf in a row that didn't help before /healthz says so."""


class Operator:
    """One process of the operator."""

    def __init__(self, settings: Settings, after_action: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self.meters = Meters()
        self.seen = handlers.Seen()
        self.after_action = after_action or (lambda _: None)
        self.watches: list[Watch] = []
        self.known: set[Key] = set()
        self.queue = WorkQueue(
            self._reconcile, self.meters, workers=settings.workers, deadline=settings.reconcile_deadline
        )
        self.store = Store(self.queue.add)
        self.attestor = Attestor(self.store, self._attested, self.meters)
        self.canaries = Canaries(Sampler(settings.metrics_backends), self.queue.add, self.meters)
        self.watchdog = health.Watchdog(
            watches=self.watches,
            busy=lambda: self.queue.oldest_busy,
            max_age=settings.watch_max_age,
            deadline=settings.reconcile_deadline,
        )
        self._reconciler: Reconciler | None = None
        self._restarts = 0

    @property
    def namespaces(self) -> tuple[str | None, ...]:
        """Namespaces to watch; None stands for all."""
        return self.settings.watch_namespaces or (None,)

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until `stop`; the exit status."""
        api = await connect(request_timeout=self.settings.request_timeout)
        ports = await health.serve(
            self.watchdog,
            self.meters,
            health_port=self.settings.health_port,
            metrics_port=self.settings.metrics_port,
        )
        self._reconciler = self._make_reconciler(api)
        try:
            return await self._serve(api, stop)
        finally:
            for port in ports:
                await port.cleanup()
            await api.close()
            logger.info("Stopped.")

    async def _serve(self, api: Api, stop: asyncio.Event) -> int:
        where = ", ".join(self.settings.watch_namespaces) or "all namespaces"
        logger.info("Serving SpecDecodeDeployments of %s.", where)
        self.watches += [
            Watch(
                api,
                self.store,
                kind,
                namespace,
                self.meters,
                server_timeout=self.settings.watch_server_timeout,
                inactivity=self.settings.watch_inactivity,
                changed=self._replan_all,
            )
            for namespace in self.namespaces
            for kind in kinds.WATCHED
        ]
        jobs = [self._job(watch.run(), f"watch {watch.kind.plural} {watch.where}") for watch in self.watches]
        jobs.append(self._job(self._work_when_synced(), "work queue"))
        jobs.append(self._job(self.attestor.run(), "attestation of pods"))
        jobs.append(self._job(self._keep_kopf(api), "kopf"))
        jobs.append(self._job(self._resync(api), "resync"))
        stopped = asyncio.create_task(stop.wait(), name="stop")
        done, _ = await asyncio.wait([*jobs, stopped], return_when=asyncio.FIRST_COMPLETED)
        failed = [job for job in done if job is not stopped]
        for job in failed:
            logger.critical("%s ended: %r", job.get_name(), None if job.cancelled() else job.exception())
        logger.info("Stopping.")
        for job in [*jobs, stopped]:
            job.cancel()
        await asyncio.gather(*jobs, stopped, return_exceptions=True)
        await self.canaries.close()
        return 1 if failed else 0

    def _job(self, coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.create_task(coroutine, name=name)

    def _make_reconciler(self, api: Api) -> Reconciler:
        return Reconciler(
            api=api,
            store=self.store,
            executor=Executor(api, self.store, self.meters, self.after_action),
            recorder=Recorder(api, self.meters, self.after_action),
            meters=self.meters,
            capabilities=self.capabilities,
            attestations=self.attestor.answers,
            canaries=self.canaries,
            allowed=Allowed(
                self.settings.allowed_host_paths,
                self.settings.allowed_service_accounts,
                verified_requests=self.settings.verified_requests,
            ),
        )

    def capabilities(self) -> frozenset[str]:
        """Kinds of other projects that the API server has, in every namespace that is served."""
        absent = {watch.kind.kind for watch in self.watches if not watch.available}
        return frozenset(watch.kind.kind for watch in self.watches) - absent

    async def _reconcile(self, key: Key) -> Any:
        assert self._reconciler is not None
        return await self._reconciler.reconcile(key)

    def _attested(self, pod: dict[str, Any]) -> None:
        """A pod has said something new."""
        owner = owner_of(pod)
        if owner is not None:
            self.queue.add(owner)

    def _replan_all(self) -> None:
        for key in self.known | set(self.seen.versions):
            self.queue.add(key)

    async def _work_when_synced(self) -> None:
        """No plan before every watch has listed: a child that isn't seen yet would be made again."""
        await asyncio.gather(*(watch.synced.wait() for watch in self.watches))
        logger.info("All watches have listed; working.")
        await self.queue.run()

    async def _keep_kopf(self, api: Api) -> None:
        """Run kopf, and start it anew when its watch has died under it or the CRD came back (kopf#980, kopf#1145)."""
        while True:
            thread = handlers.KopfThread(self.settings.watch_namespaces, self._event)
            guard = self._job(self._until_behind(api), "kopf guard")
            try:
                await asyncio.wait([thread.start(), guard], return_when=asyncio.FIRST_COMPLETED)
            finally:
                guard.cancel()
                thread.stop()
            if thread.failure is not None:
                logger.error("kopf ended: %r", thread.failure)
            self._restarts += 1
            if self._restarts >= PATIENCE:
                self.watchdog.stale["kopf"] = f"kopf delivers nothing, after {self._restarts} starts"
            self.seen.versions.clear()
            self.meters.watch_restarts.labels(kinds.SDD.kind, "kopf").inc()
            await asyncio.sleep(min(2.0**self._restarts, CHECK))
            await self._late(api)  # whatever kopf does, nobody waits for it

    def _event(self, event: Any) -> None:
        key = self.seen.take(event)
        if key is not None:
            self.queue.add(key)

    async def _until_behind(self, api: Api) -> None:
        """Return once kopf hasn't delivered a version that was there some seconds ago; plan what is late meanwhile."""
        late: dict[Key, tuple[str, int]] = {}
        while True:
            await asyncio.sleep(CHECK_AGAIN if late else CHECK)
            lost = {key for key, version in late.items() if self.seen.lacks(key, version)}
            if lost:
                logger.warning("kopf hasn't delivered %s; it is started anew.", ", ".join(map(str, sorted(lost))))
                return
            late = await self._late(api)
            if not late:
                self._restarts = 0
                self.watchdog.stale.pop("kopf", None)

    async def _late(self, api: Api) -> dict[Key, tuple[str, int]]:
        """Objects in versions that kopf hasn't delivered yet; they are planned without it."""
        try:
            versions = _versions(await self._list(api))
        except (ApiError, Unreachable):
            return {}
        late = {key: version for key, version in versions.items() if self.seen.lacks(key, version)}
        for key in late:
            self.queue.add(key)
        return late

    async def _resync(self, api: Api) -> None:
        """Plan all objects again now and then: an event that got lost costs this long at most (kopf#1178)."""
        while True:
            await asyncio.sleep(self.settings.resync_interval)
            with contextlib.suppress(ApiError, Unreachable):
                self.known = {
                    Key(item["metadata"]["namespace"], item["metadata"]["name"]) for item in await self._list(api)
                }
                self._replan_all()

    async def _list(self, api: Api) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for namespace in self.namespaces:
            try:
                items, _ = await api.list(kinds.SDD.path(namespace), {})
            except NotFound:
                items = []  # the CRD is not there, so no object is
            found += items
        return found


def _versions(items: list[dict[str, Any]]) -> dict[Key, tuple[str, int]]:
    return {
        Key(meta["namespace"], meta["name"]): (meta["uid"], int(meta["resourceVersion"]))
        for meta in (item["metadata"] for item in items)
    }
