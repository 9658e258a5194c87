"""What a plan asks for. `apply/` carries these out, one at a time, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specdecode_operator.plan.observe import Json


@dataclass(frozen=True)
class Apply:
    """Server-side apply of a child: it is absent, or some of it isn't as it should be.

    `if_version`: the resource version that the plan was made from, where acting on an older state could cost a slot too
    many; the write then fails with Conflict and all is planned again. `fresh`: no child of this name is known; should
    there be something all the same, it must not be taken over.
    """

    manifest: Json
    why: str
    if_version: str | None = None
    fresh: bool = False


@dataclass(frozen=True)
class Patch:
    """JSON merge patch of an object: takes away what others added, or marks a pod."""

    api_version: str
    kind: str
    name: str
    patch: Json
    why: str


@dataclass(frozen=True)
class Delete:
    """Delete this very object."""

    api_version: str
    kind: str
    name: str
    uid: str
    why: str


Action = Apply | Patch | Delete


@dataclass(frozen=True)
class Event:
    """A sentence for people, in `kubectl describe`."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
