"""One watch: list, then follow, for ever; whatever breaks, it begins again.

A watch can die while it looks open (kopf#585, kopf#1120). So bookmarks are asked for, silence beyond a limit ends the
connection, and the age of the last sign of life is there for the watchdog to see.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.apply.client import Api, ApiError, Expired, Forbidden, Json, NotFound, Unreachable
from specdecode_operator.apply.kinds import Kind
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Store

logger = logging.getLogger(__name__)

BACKOFF: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)
ABSENT_RETRY: Final = 15.0
"""Seconds between two looks for a kind whose CRD isn't installed."""
SHORTEST: Final = 1.0
"""Seconds; a watch that ended sooner is begun again only after as long."""


@dataclass
class Watch:
    """Follows one kind in one namespace (None: in all) and keeps the store."""

    api: Api
    store: Store
    kind: Kind
    namespace: str | None
    meters: Meters
    server_timeout: int = 270
    """Seconds after which the server ends a watch; kept below the minute-old idle limits of load balancers' tables."""
    inactivity: float = 90.0
    """Seconds of silence after which a watch counts as dead; the API server sends a bookmark each minute."""
    changed: Callable[[], None] = field(default=lambda: None)
    """Called when the kind appears or goes: all objects are to be planned again."""
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    available: bool = False
    """Whether the API server has the kind."""
    heard: float = field(default_factory=time.monotonic)
    """When it last gave a sign of life, on the monotonic clock."""

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            try:
                await self._follow(await self._list())
                failures = 0
            except Expired:
                failures = 0
                self._count("expired")
            except NotFound:
                self._absent()
                await asyncio.sleep(ABSENT_RETRY)
            except Forbidden as error:
                logger.warning("May not watch %s in %s: %s", self.kind.plural, self.where, error.message)
                self._count("forbidden")
                if self.kind.optional:
                    self._absent()
                await asyncio.sleep(ABSENT_RETRY)
            except (ApiError, Unreachable) as error:
                delay = BACKOFF[min(failures, len(BACKOFF) - 1)]
                failures += 1
                logger.info("Watch of %s in %s: %s; again in %.1f s", self.kind.plural, self.where, error, delay)
                self._count("error")
                await asyncio.sleep(delay * random.uniform(0.7, 1.3))

    @property
    def where(self) -> str:
        """The namespace, for people."""
        return self.namespace or "all namespaces"

    @property
    def age(self) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - self.heard

    async def _list(self) -> str:
        query = {"labelSelector": names.MANAGED_SELECTOR}
        items, version = await self.api.list(self.kind.path(self.namespace), query)
        for item in items:
            item.setdefault("apiVersion", self.kind.api_version)
            item.setdefault("kind", self.kind.kind)
        self.store.replace(self.kind, self.namespace, items, version)
        self._alive()
        if not self.available:
            self.available = True
            self.changed()
        self.synced.set()
        return version

    async def _follow(self, version: str) -> None:
        """Watch from `version` on, over any number of connections, until the server has forgotten it."""
        while True:
            query = {
                "labelSelector": names.MANAGED_SELECTOR,
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(int(self.server_timeout * random.uniform(0.9, 1.1))),
            }
            begun = time.monotonic()
            try:
                async for line in self.api.watch(self.kind.path(self.namespace), query, inactivity=self.inactivity):
                    version = self._take(line)
            except Unreachable as error:
                logger.debug("%s", error)
                self._count("broken")
                await asyncio.sleep(random.uniform(0.2, 1.0))
                await self.api.get(self.kind.path(self.namespace), {"limit": "1"})  # raises if it stays unreachable
            else:
                self._count("ended")
                if time.monotonic() - begun < SHORTEST:
                    await asyncio.sleep(SHORTEST)  # a server that is going down ends each watch at once

    def _take(self, line: Json) -> str:
        """Put one event into the store; the resource version to go on from."""
        self._alive()
        item = line["object"]
        if line["type"] == "ERROR":
            code = int(item.get("code") or 500)
            raise Expired(code, item) if code == 410 else ApiError(code, item)
        if line["type"] == "DELETED":
            self.store.gone(self.kind, item)
        elif line["type"] in ("ADDED", "MODIFIED"):
            self.store.seen(self.kind, item)
        return str(item["metadata"]["resourceVersion"])

    def _alive(self) -> None:
        self.heard = time.monotonic()

    def _absent(self) -> None:
        """The API server doesn't have the kind: nothing of it exists."""
        self._alive()
        self.store.replace(self.kind, self.namespace, [], "")
        if self.available:
            self.available = False
            self.changed()
        self.synced.set()

    def _count(self, why: str) -> None:
        self.meters.watch_restarts.labels(self.kind.kind, why).inc()
