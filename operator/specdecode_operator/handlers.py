"""kopf, for the object alone: each event puts its key on our own queue, and that is all.

Only on.event and startup: no change handlers, timers or daemons, so kopf writes nothing, keeps no progress and
sets no finalizer that could hang an object once the operator is uninstalled.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import kopf

from specdecode_operator.api import names
from specdecode_operator.apply.store import Key


@dataclass
class Seen:
    """What kopf has delivered: key to (uid, resource version). The resync compares it with a list."""

    versions: dict[Key, tuple[str, int]] = field(default_factory=dict)

    def take(self, event: Any) -> Key | None:
        """Note an event; the object's key."""
        meta = event["object"].get("metadata") or {}
        if "name" not in meta or "namespace" not in meta:
            return None
        key = Key(meta["namespace"], meta["name"])
        if event["type"] == "DELETED":
            self.versions.pop(key, None)
        else:
            self.versions[key] = (meta.get("uid", ""), int(meta.get("resourceVersion") or 0))
        return key

    def lacks(self, key: Key, version: tuple[str, int]) -> bool:
        """Whether kopf has yet to deliver that version, or a later one, of that very object."""
        uid, number = self.versions.get(key, ("", -1))
        return uid != version[0] or number < version[1]


class KopfThread:
    """kopf in a thread and an event loop of its own.

    When it ends, kopf cancels every task of its loop that it doesn't know, and it takes the process' signals for
    itself; in a thread it can do neither to the rest of the operator. Events come over by call_soon_threadsafe
    (kopf#1212).
    """

    def __init__(self, namespaces: Collection[str], take: Callable[[Any], None]) -> None:
        self._namespaces = namespaces
        self._take = take
        self._stop = threading.Event()
        self.failure: BaseException | None = None

    def start(self) -> asyncio.Future[None]:
        """Start it; the future is cancelled once it has ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        registry = handlers(lambda event: loop.call_soon_threadsafe(self._take, event))

        def run() -> None:
            try:
                asyncio.run(self._operator(registry))
            except BaseException as error:
                self.failure = error
            with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
                loop.call_soon_threadsafe(ended.cancel)

        threading.Thread(target=run, name="kopf", daemon=True).start()
        return ended

    def stop(self) -> None:
        """Tell it to end."""
        self._stop.set()

    async def _operator(self, registry: kopf.OperatorRegistry) -> None:
        everywhere = not self._namespaces
        await kopf.operator(
            registry=registry,
            identity=kopf_identity(),
            standalone=True,
            clusterwide=everywhere,
            namespaces=self._namespaces,
            stop_flag=self._stop,
        )


def kopf_identity() -> Any:
    """A name of ours: kopf's own asks for the user's, and a container's user id has none."""
    return names.FIELD_MANAGER


def handlers(take: Callable[[Any], object]) -> kopf.OperatorRegistry:
    """Handlers that give each event of the object to `take`."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        apply_settings(settings)

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        """The pod's service account, else the kubeconfig; by client libraries it is unreliable (kopf#1308)."""
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    def object_event(event: Any, **_: Any) -> None:
        take(event)

    return registry


def apply_settings(settings: kopf.OperatorSettings) -> None:
    """kopf as production asks for it."""
    settings.posting.enabled = False  # events are ours
    settings.scanning.disabled = True  # no right to list CRDs or namespaces is needed; the resync sees a CRD come back
    settings.peering.standalone = True  # one replica, Recreate; peering is not leader election (kopf#1266)
    settings.watching.server_timeout = 270
    settings.watching.client_timeout = 280  # a little more: the server's end is the regular one (kopf#585)
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = 90
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = (1, 2, 4, 8)
    settings.queueing.worker_limit = None  # handlers only add to a queue; a limit has stalled operators (kopf#1243)
    settings.queueing.exit_timeout = 2
    settings.process.ultimate_exiting_timeout = 25
    # Never written, since nothing here needs them; named, so that they could never collide with somebody else's kopf.
    settings.persistence.finalizer = f"{names.GROUP}/unused"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{names.GROUP}")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=f"kopf.{names.GROUP}", key="last-handled-configuration"
    )
