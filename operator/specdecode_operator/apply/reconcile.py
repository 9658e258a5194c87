"""One reconcile: read the object, plan, write what differs, say what changed.

Level-triggered: it knows nothing of why it was called. It can be stopped after any write; the next one starts from what
is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.api.status import Status
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.apply import kinds
from specdecode_operator.apply.canary import Canaries
from specdecode_operator.apply.client import Api, Json, NamespaceTerminating, NotFound
from specdecode_operator.apply.events import Recorder
from specdecode_operator.apply.execute import Executor
from specdecode_operator.apply.gather import STUCK_AFTER, creating, gather, pod_warnings, predecessor
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key, Store
from specdecode_operator.plan.actions import Action, Patch
from specdecode_operator.plan.narrate import narrate
from specdecode_operator.plan.plan import plan
from specdecode_operator.plan.status import refused, unreadable
from specdecode_operator.plan.testimony import Answer
from specdecode_operator.plan.validate import Allowed

logger = logging.getLogger(__name__)


PREDECESSOR_RETRY: Final = timedelta(seconds=2)
"""How often it looks whether the children of a deleted object of the same name are gone."""
REFUSED_RETRY: Final = timedelta(seconds=15)
"""When a child that couldn't be written is tried again: what stands in its way may be somebody else's. It doubles each
time that the same writes are refused."""
REFUSED_MOST: Final = timedelta(minutes=5)
LONGEST: Final = timedelta(minutes=10)
"""How long an object that nothing happens to is left alone."""


def utc_now() -> datetime:
    """Now, in whole seconds: what a status may hold."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True)
class Refused:
    """Writes of which some were refused, and how often in a row. A change of the object or of its children makes
    others."""

    actions: tuple[Action, ...]
    times: int = 0

    def once_more(self, actions: tuple[Action, ...]) -> Refused:
        """With `actions` refused now."""
        return Refused(actions, self.times + 1 if actions == self.actions else 1)

    @property
    def retry(self) -> timedelta:
        """When they are tried again."""
        doublings: int = 2 ** min(self.times - 1, 10)
        return min(REFUSED_RETRY * doublings, REFUSED_MOST)


@dataclass
class Reconciler:
    """Brings one object at a time to what its spec asks for."""

    api: Api
    store: Store
    executor: Executor
    recorder: Recorder
    meters: Meters
    capabilities: Callable[[], frozenset[str]]
    attestations: Callable[[list[Json]], Mapping[str, Answer]]
    """What the processes of these pods have said of their files, by pod UID."""
    canaries: Canaries
    """What finds out for canaries what a plan wants to know."""
    allowed: Allowed = field(default_factory=Allowed)
    clock: Callable[[], datetime] = utc_now
    leaving: dict[Key, str] = field(default_factory=dict)
    """UIDs of objects whose namespace is being deleted: nothing is written for them any more."""
    refused: dict[Key, Refused] = field(default_factory=dict)

    async def reconcile(self, key: Key) -> timedelta | None:
        """Plan and write; when to look again, if nothing happens before.

        Raises Conflict if the object or a child changed meanwhile, ApiError, Unreachable.
        """
        try:
            obj = await self.api.get(kinds.SDD.path(key.namespace, key.name))
        except NotFound:
            self.leaving.pop(key, None)
            self.refused.pop(key, None)
            self.meters.reported.forget(key)
            self.canaries.forget(key)
            return None  # garbage collection removes its children
        uid = obj["metadata"]["uid"]
        if obj["metadata"].get("deletionTimestamp") or self.leaving.get(key) == uid:
            return None
        try:
            return await self._bring(key, obj)
        except NamespaceTerminating:
            self.leaving[key] = uid
            logger.info("%s: its namespace is being deleted, and the object with it; nothing more is written", key)
            return None

    async def _bring(self, key: Key, obj: Json) -> timedelta | None:
        now = self.clock()
        try:
            desired = _parse(obj)
        except InvalidObject as error:
            await self._say_unreadable(key, obj, error, now)
            return None
        old = predecessor(self.store, key, desired.uid)
        if old is not None:
            logger.info("%s: waits until %s of an earlier object of this name is gone", key, old)
            return PREDECESSOR_RETRY
        pods = self.store.of(kinds.POD, key)
        warnings = await pod_warnings(self.api, pods, now)
        answers = self.attestations(pods)
        evidence = self.canaries.evidence(key)
        observed = gather(self.store, key, desired.uid, self.capabilities(), warnings, answers, evidence)
        made = plan(desired, observed, now, self.allowed)
        self.canaries.want(key, made.want)
        refusals = await self.executor.carry_out(key, made.actions)
        status, events = made.status, made.events
        again = [made.requeue_after or LONGEST, *([STUCK_AFTER] if creating(pods) else [])]
        before = self.refused.pop(key, Refused(()))
        if refusals:
            self.refused[key] = before.once_more(made.actions)
            again.append(self.refused[key].retry)
            said = [(each.reason, each.message) for each in refusals]
            status = refused(status, desired.status, said, desired.generation, now)
            taken_out = tuple(each for each in made.actions if isinstance(each, Patch) and each.kind == "Pod")
            events = narrate(desired.status, status, taken_out)
            if status != desired.status:
                logger.warning("%s: %s", key, " ".join(each.message for each in refusals))
            self.meters.errors.labels(kinds.SDD.kind, refusals[0].reason).inc()
        await self.write_status(key, obj, status)
        await self.recorder.say(key, desired.uid, events, now)
        return min(again)

    async def write_status(self, key: Key, obj: Json, status: Status) -> None:
        """Write the status if it says anything new; with the version that was read, so never over a newer one."""
        self.meters.reported.saw(key, status, self._record(key, status))
        wanted: dict[str, Any] = status.model_dump(by_alias=True, exclude_none=True, mode="json")
        if wanted == (obj.get("status") or {}):
            return
        path = kinds.SDD.path(key.namespace, key.name, "status")
        try:
            await self.api.put(path, {**obj, "status": wanted}, manager=names.FIELD_MANAGER)
        except NotFound:
            return  # deleted meanwhile
        self.meters.writes.labels(kinds.SDD.kind, "status").inc()
        logger.info("%s: status written", key)
        self.executor.after_action("status")

    def _record(self, key: Key, status: Status) -> Json | None:
        """The record of the run that a status names."""
        run = status.run.id if status.run else None
        return self.store.get(kinds.CONFIG_MAP, key.namespace, names.run_record(key.name, run)) if run else None

    async def _say_unreadable(self, key: Key, obj: Json, error: InvalidObject, now: datetime) -> None:
        """Children stay as they are; the rest of the status too."""
        generation = obj["metadata"].get("generation", 0)
        try:
            before = Status.model_validate(obj.get("status") or {})
        except ValueError:
            before = Status()
        conditions = unreadable(before.conditions, error.errors, generation, now)
        after = before.model_copy(update={"conditions": conditions, "observed_generation": generation})
        await self.write_status(key, obj, after)


def _parse(obj: Json) -> SpecDecodeDeployment:
    """The typed object. A status that can't be read is as good as lost: the children tell it anew."""
    try:
        return SpecDecodeDeployment.parse(obj)
    except InvalidObject as error:
        if all(each.path.startswith("status") for each in error.errors):
            return SpecDecodeDeployment.parse({**obj, "status": {}})
        raise
