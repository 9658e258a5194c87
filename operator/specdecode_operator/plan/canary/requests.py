"""What people ask of a canary: promote, abort, pause, resume, retry. Each request is applied once.

It comes as an annotation, so that whoever may change the object may ask, and nobody needs another right. It names the
run that it is about: a request that was written for one run must not decide another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.status import RejectedStatus, RequestStatus
from specdecode_operator.plan.canary.record import Record

VERBS: Final = ("promote", "abort", "pause", "resume", "retry")
WORD: Final = 253
WORDS: Final = 1024
LONGEST: Final = 8192


@dataclass(frozen=True)
class Request:
    """One request, as somebody wrote it."""

    id: str
    verb: str
    run: str
    by: str = ""
    reason: str = ""
    verified: bool = False
    """Whether the API server let nobody write another name than the own."""

    @property
    def who(self) -> str:
        """Whoever has asked, or says so: without the policy, whoever may write the annotation may write any name."""
        return self.by if self.verified and self.by else f"{self.by or 'nobody named'} (unverified)"

    def applied(self, refused: str = "") -> RequestStatus:
        """What status says of it."""
        return RequestStatus(
            id=self.id, verb=self.verb, run=self.run, by=self.who, reason=self.reason, refused=refused or None
        )


def read(annotations: Mapping[str, str], *, verified: bool = False) -> Request | None:
    """The request that the object carries, if it can be read; a verb that nobody knows is refused later, by name."""
    text = annotations.get(names.ANNOTATION_REQUEST, "")
    if not text or len(text) > LONGEST:
        return None
    try:
        data = json.loads(text, object_pairs_hook=_told_once)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data.get("id"):
        return None
    return Request(
        id=_word(data.get("id"), WORD),
        verb=_word(data.get("verb"), WORD),
        run=_word(data.get("runID"), WORD),
        by=_word(data.get("by"), WORD),
        reason=_word(data.get("reason"), WORDS),
        verified=verified,
    )


def _told_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values for one key, no reader knows which one was meant, or was looked at by whoever let it pass."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def refusal(request: Request, record: Record | None, rejected: tuple[RejectedStatus, ...]) -> str:
    """Why a request isn't applied; empty if it is."""
    if request.verb not in VERBS:
        return f"verb: found {request.verb or 'nothing'}; allowed: {', '.join(VERBS)}"
    if request.verb == "retry" and any(each.run == request.run for each in rejected):
        return ""
    if record is None or record.id != request.run:
        return f"runID: found {request.run or 'nothing'}; allowed: the current run ({record.id if record else 'none'})"
    if request.verb != "retry" and record.ended is not None:
        return f"run {record.id} has ended ({record.ended.outcome}); only retry is possible"
    if request.verb == "retry" and record.ended is None:
        return f"run {record.id} still goes on; abort it first, or wait for its end"
    return ""


def _word(value: object, longest: int) -> str:
    """A text of somebody's, cut, and without what could break a line or a terminal."""
    text = value if isinstance(value, str) else ""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest])
