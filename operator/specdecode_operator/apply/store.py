"""What the watches have seen: children and pods of every object, shared by all reconciles.

Two writers: the watches, and each of our own writes with what the API server answered. An older version never
replaces a newer one, and what a watch has seen deleted doesn't come back by a late answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from specdecode_operator.api import names
from specdecode_operator.apply.client import Json
from specdecode_operator.apply.kinds import Kind

TOMBSTONES: Final = 4096
"""UIDs of deleted objects that are remembered; a write's answer is never that late."""


class Key(NamedTuple):
    """The object that a child belongs to; what the work queue holds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def owner_of(item: Json) -> Key | None:
    """The object that an item is a child or pod of, by its label."""
    meta = item["metadata"]
    name = (meta.get("labels") or {}).get(names.LABEL_NAME)
    return Key(meta["namespace"], name) if name else None


def version(item: Json) -> int:
    """Resource version as a number: etcd's revision, which grows with each write."""
    text = item["metadata"].get("resourceVersion", "0")
    return int(text) if text.isdigit() else 0


class Store:
    """Objects by kind, namespace and name, indexed by the object that they belong to."""

    def __init__(self, notify: Callable[[Key], None]) -> None:
        self._items: dict[Kind, dict[tuple[str, str], Json]] = {}
        self._index: dict[tuple[Kind, Key], set[str]] = {}
        self._dead: OrderedDict[str, None] = OrderedDict()
        self._notify = notify

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """One object, or None."""
        return self._items.get(kind, {}).get((namespace, name))

    def of(self, kind: Kind, key: Key) -> list[Json]:
        """All objects of a kind that belong to one SpecDecodeDeployment, by name."""
        items = self._items.get(kind, {})
        return [items[(key.namespace, name)] for name in sorted(self._index.get((kind, key), ()))]

    def all(self, kind: Kind) -> Iterator[Json]:
        """All objects of a kind."""
        return iter(list(self._items.get(kind, {}).values()))

    def count(self, kind: Kind) -> int:
        """How many objects of a kind are held."""
        return len(self._items.get(kind, {}))

    def seen(self, kind: Kind, item: Json) -> None:
        """A watch has seen this version: take it, and have its owner planned again, and the one before, if another."""
        old = self.get(kind, item["metadata"]["namespace"], item["metadata"]["name"])
        if self._put(kind, item):
            self._tell(item)
            if old is not None and owner_of(old) != owner_of(item):
                self._tell(old)

    def written(self, kind: Kind, item: Json) -> None:
        """The API server answered a write of ours with this version: take it. The watch will wake the owner."""
        if item["metadata"].get("uid") not in self._dead:
            self._put(kind, item)

    def gone(self, kind: Kind, item: Json) -> None:
        """A watch has seen it deleted."""
        self._bury(item)
        if self._drop(kind, item):
            self._tell(item)

    def replace(self, kind: Kind, namespace: str | None, items: list[Json], listed: str) -> None:
        """A fresh list: take it, and drop what is no longer in it (what was written after the list stays)."""
        kept = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items}
        since = int(listed) if listed.isdigit() else 0
        for (space, name), old in list(self._items.get(kind, {}).items()):
            inside = namespace is None or space == namespace
            if inside and (space, name) not in kept and (not listed or version(old) <= since):
                self._drop(kind, old)
                self._tell(old)
        for item in items:
            self.seen(kind, item)

    def _put(self, kind: Kind, item: Json) -> bool:
        meta = item["metadata"]
        key = (meta["namespace"], meta["name"])
        items = self._items.setdefault(kind, {})
        old = items.get(key)
        if old is not None:
            if version(old) >= version(item) and old["metadata"].get("uid") == meta.get("uid"):
                return False
            self._unindex(kind, old)
        items[key] = item
        owner = owner_of(item)
        if owner is not None:
            self._index.setdefault((kind, owner), set()).add(meta["name"])
        return True

    def _drop(self, kind: Kind, item: Json) -> bool:
        key = (item["metadata"]["namespace"], item["metadata"]["name"])
        items = self._items.get(kind, {})
        held = items.get(key)
        if held is None or held["metadata"].get("uid") != item["metadata"].get("uid"):
            return False
        self._unindex(kind, held)
        del items[key]
        return True

    def _unindex(self, kind: Kind, item: Json) -> None:
        owner = owner_of(item)
        names_of = self._index.get((kind, owner)) if owner is not None else None
        if owner is not None and names_of is not None:
            names_of.discard(item["metadata"]["name"])
            if not names_of:
                del self._index[(kind, owner)]

    def _bury(self, item: Json) -> None:
        self._dead[item["metadata"].get("uid", "")] = None
        if len(self._dead) > TOMBSTONES:
            self._dead.popitem(last=False)

    def _tell(self, item: Json) -> None:
        owner = owner_of(item)
        if owner is not None:
            self._notify(owner)
