"""Carries actions out, one at a time, in the plan's order. The only place that writes children."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from specdecode_operator.api import names
from specdecode_operator.apply.client import Api, ApiError, Conflict, Forbidden, Invalid, Json, NotFound
from specdecode_operator.apply.kinds import BY_NAME, of
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key, Store
from specdecode_operator.plan.actions import Action, Apply, Delete, Patch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """The API server refused a child: quota, admission, a field that it doesn't take."""

    child: str
    message: str
    namespace_terminating: bool


@dataclass
class Executor:
    """Carries actions out. `after_action` is called after each write, so that a test can stop the process there."""

    api: Api
    store: Store
    meters: Meters
    after_action: Callable[[str], None] = field(default=lambda _: None)

    async def carry_out(self, key: Key, actions: tuple[Action, ...]) -> tuple[Refusal, ...]:
        """Do all of it; a refused child keeps none of the others from being written.

        Raises Conflict if something changed since it was read (plan again), and ApiError or Unreachable as they come.
        """
        refusals: list[Refusal] = []
        for action in actions:
            try:
                await self._do(key, action)
            except (Invalid, Forbidden) as error:
                refusals.append(_refusal(action, error))
                if error.namespace_terminating:
                    logger.info("%s: nothing more is made, its namespace is being deleted", key)
                    break
                logger.warning("%s: %s refused: %s", key, refusals[-1].child, error.message)
        return tuple(refusals)

    async def _do(self, key: Key, action: Action) -> None:
        if isinstance(action, Apply):
            await self._apply(key, action)
        elif isinstance(action, Patch):
            await self._patch(key, action)
        else:
            await self._delete(key, action)

    async def _apply(self, key: Key, action: Apply) -> None:
        kind = of(action.manifest)
        name = action.manifest["metadata"]["name"]
        manifest = _guarded(action.manifest, action.if_version)
        answer = await self.api.apply(kind.path(key.namespace, name), manifest, manager=names.FIELD_MANAGER)
        self.store.written(kind, answer)
        self._done(key, kind.kind, "apply", name, action.why)

    async def _patch(self, key: Key, action: Patch) -> None:
        kind = BY_NAME[(action.api_version, action.kind)]
        path = kind.path(key.namespace, action.name)
        try:
            answer = await self.api.merge(path, action.patch, manager=names.FIELD_MANAGER)
        except NotFound as error:
            raise Conflict(409, {"message": f"{action.kind} {action.name} is gone: {error.message}"}) from error
        self.store.written(kind, answer)
        self._done(key, kind.kind, "patch", action.name, action.why)

    async def _delete(self, key: Key, action: Delete) -> None:
        kind = BY_NAME[(action.api_version, action.kind)]
        try:
            await self.api.delete(kind.path(key.namespace, action.name), uid=action.uid)
        except NotFound:
            return
        self._done(key, kind.kind, "delete", action.name, action.why)

    def _done(self, key: Key, kind: str, verb: str, name: str, why: str) -> None:
        self.meters.writes.labels(kind, verb).inc()
        logger.info("%s: %s %s %s: %s", key, verb, kind, name, why)
        self.after_action(f"{verb} {kind}")


def _guarded(manifest: Json, version: str | None) -> Json:
    if version is None:
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": version}}


def _refusal(action: Action, error: ApiError) -> Refusal:
    if isinstance(action, Apply):
        child = f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
    else:
        child = f"{action.kind} {action.name}"
    return Refusal(child, error.message, error.namespace_terminating)
