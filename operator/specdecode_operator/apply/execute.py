"""Carries actions out, one at a time, in the plan's order. The only place that writes children."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from specdecode_operator.api import names
from specdecode_operator.apply.client import Api, Conflict, Forbidden, Invalid, Json, NamespaceTerminating, NotFound
from specdecode_operator.apply.kinds import BY_NAME, CONTROLLER_REVISION, Kind, of
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key, Store
from specdecode_operator.plan.actions import Action, Apply, Delete, Patch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """A child that can't be written. `reason` is one of the Progressing reasons."""

    reason: str
    message: str


class NameTaken(Exception):
    """Something that isn't this object's has the name of a child."""


@dataclass
class Executor:
    """Carries actions out. `after_action` is called after each write, so that a test can stop the process there."""

    api: Api
    store: Store
    meters: Meters
    after_action: Callable[[str], None] = field(default=lambda _: None)

    async def carry_out(self, key: Key, actions: tuple[Action, ...]) -> tuple[Refusal, ...]:
        """Do all of it; a refused child keeps none of the others from being written.

        Raises Conflict if something changed since it was read (plan again), NamespaceTerminating, and other ApiErrors
        and Unreachable as they come.
        """
        refusals: list[Refusal] = []
        for action in actions:
            try:
                await self._do(key, action)
            except NamespaceTerminating:
                raise
            except NameTaken as error:
                refusals.append(Refusal(names.REASON_NAME_TAKEN, str(error)))
            except (Invalid, Forbidden) as error:
                words = f"{_child(action)} is refused by the API server: {error.message}"
                refusals.append(Refusal(names.REASON_CHILD_REFUSED, words))
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
        if action.fresh:
            answer = await self._make(key, kind, action.manifest)
        else:
            manifest = _guarded(action.manifest, action.if_version)
            answer = await self.api.apply(kind.path(key.namespace, name), manifest, manager=names.FIELD_MANAGER)
        self.store.written(kind, answer)
        self._done(key, kind.kind, "apply", name, action.why)

    async def _make(self, key: Key, kind: Kind, manifest: Json) -> Json:
        """A child that the watches don't know. What has its name without their labels is taken only if it is ours."""
        name = manifest["metadata"]["name"]
        path = kind.path(key.namespace, name)
        found = await self.api.named(kind.path(key.namespace), name)
        if found is None:
            return await self._create(kind, key, manifest)
        if not same_owner(found, manifest):
            raise NameTaken(_taken(kind, found))
        if kind == CONTROLLER_REVISION:  # its data can't change, and may come from an operator that rendered otherwise
            labels = {"labels": manifest["metadata"]["labels"]}
            return await self._merge(kind, path, {"metadata": labels})
        return await self.api.apply(path, manifest, manager=names.FIELD_MANAGER)

    async def _create(self, kind: Kind, key: Key, manifest: Json) -> Json:
        """A child whose name was free. Should somebody have been faster, what can't be written over theirs is no fault
        of the manifest: it is a Conflict, and the next plan sees what is there."""
        name = manifest["metadata"]["name"]
        try:
            return await self.api.apply(
                kind.path(key.namespace, name), manifest, manager=names.FIELD_MANAGER, force=False
            )
        except Invalid as error:
            if await self.api.named(kind.path(key.namespace), name) is None:
                raise
            raise Conflict(409, {"message": f"{kind.kind} {name} has just been made: {error.message}"}) from error

    async def _patch(self, key: Key, action: Patch) -> None:
        kind = BY_NAME[(action.api_version, action.kind)]
        answer = await self._merge(kind, kind.path(key.namespace, action.name), action.patch)
        self.store.written(kind, answer)
        self._done(key, kind.kind, "patch", action.name, action.why)

    async def _merge(self, kind: Kind, path: str, patch: Json) -> Json:
        try:
            return await self.api.merge(path, patch, manager=names.FIELD_MANAGER)
        except NotFound as error:
            raise Conflict(409, {"message": f"{kind.kind} at {path} is gone: {error.message}"}) from error

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


def _child(action: Action) -> str:
    if isinstance(action, Apply):
        return f"{action.manifest['kind']} {action.manifest['metadata']['name']}"
    return f"{action.kind} {action.name}"


def same_owner(found: Json, manifest: Json) -> bool:
    """Whether it has our owner, or is what an object of this name left behind when it was deleted alone."""
    owners = found["metadata"].get("ownerReferences") or ()
    uids = {owner["uid"] for owner in owners}
    ours = {owner["uid"] for owner in manifest["metadata"]["ownerReferences"]}
    labels = found["metadata"].get("labels") or {}
    wanted = manifest["metadata"]["labels"]
    return bool(uids & ours) or (not uids and all(labels.get(key) == value for key, value in wanted.items()))


def _taken(kind: Kind, found: Json) -> str:
    meta = found["metadata"]
    controller = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
    maker = next((each["manager"] for each in meta.get("managedFields") or () if each.get("manager")), "somebody else")
    whose = f"{controller['kind']} {controller['name']}" if controller else maker
    return (
        f"{kind.kind} {meta['name']} isn't made. metadata.name: found a {kind.kind} of that name, which belongs to "
        f"{whose}; allowed: a name whose {kind.kind} isn't there yet; remove that one, or make this object anew under "
        "another name."
    )
