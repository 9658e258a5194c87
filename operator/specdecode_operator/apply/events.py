"""Sentences for `kubectl describe`. The same sentence again raises a count instead of making another event."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.apply.client import Api, ApiError, Json, NamespaceTerminating, NotFound, Unreachable
from specdecode_operator.apply.kinds import EVENT, SDD
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key
from specdecode_operator.plan.actions import Event

logger = logging.getLogger(__name__)

REMEMBERED: Final = 2048
QUIET: Final = timedelta(minutes=5)
"""A sentence that is said again within this time isn't written at all."""
MESSAGE: Final = 1000
"""Characters of a message: the API server takes 1024."""


class Recorder:
    """Writes events of objects; a failure to write one is logged and forgotten.

    At most once: an event follows the status that it tells of, so a process that ends in between tells it never.
    `after_action` is called after each, as the executor does.
    """

    def __init__(self, api: Api, meters: Meters, after_action: Callable[[str], None] = lambda _: None) -> None:
        self._api = api
        self._meters = meters
        self._after_action = after_action
        self._said: OrderedDict[str, tuple[datetime, int]] = OrderedDict()

    async def say(self, key: Key, uid: str, events: Iterable[Event], now: datetime) -> None:
        """Record the events of one object. Raises NamespaceTerminating."""
        for event in events:
            name = _name(key, uid, event)
            last, count = self._said.get(name, (None, 0))
            if last is not None and now - last < QUIET:
                continue
            self._said[name] = (now, count + 1)
            self._said.move_to_end(name)
            if len(self._said) > REMEMBERED:
                self._said.popitem(last=False)
            await self._write(key, uid, event, name, now, count + 1)

    async def _write(self, key: Key, uid: str, event: Event, name: str, now: datetime, count: int) -> None:
        manifest = _manifest(key, uid, event, name, now)
        try:
            await self._repeat_or_make(key, name, manifest, count)
        except NamespaceTerminating:
            raise
        except (ApiError, Unreachable) as error:
            logger.warning("%s: event %s wasn't recorded: %s", key, event.reason, error)
            return
        self._meters.writes.labels("Event", "create").inc()
        self._after_action("event")

    async def _repeat_or_make(self, key: Key, name: str, manifest: Json, count: int) -> None:
        if count > 1:
            patch = {"count": count, "lastTimestamp": manifest["lastTimestamp"]}
            try:
                await self._api.merge(EVENT.path(key.namespace, name), patch, manager=names.FIELD_MANAGER)
            except NotFound:
                pass  # it has expired; make it anew
            else:
                return
        await self._api.apply(EVENT.path(key.namespace, name), manifest, manager=names.FIELD_MANAGER)


def _name(key: Key, uid: str, event: Event) -> str:
    """The same sentence about the same object has the same name, over restarts too."""
    text = "\n".join((uid, event.type, event.reason, event.message))
    return f"{key.name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _manifest(key: Key, uid: str, event: Event, name: str, now: datetime) -> Json:
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    message = event.message if len(event.message) <= MESSAGE else event.message[: MESSAGE - 1] + "…"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": key.namespace},
        "involvedObject": {
            "apiVersion": SDD.api_version,
            "kind": SDD.kind,
            "name": key.name,
            "namespace": key.namespace,
            "uid": uid,
        },
        "type": event.type,
        "reason": event.reason,
        "message": message,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
        "source": {"component": names.FIELD_MANAGER},
        "reportingComponent": names.FIELD_MANAGER,
        "reportingInstance": names.FIELD_MANAGER,
    }
