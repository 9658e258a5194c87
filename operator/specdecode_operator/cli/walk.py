"""Optimizations walked one by one, each a canary of its switch alone: what is next, from what the object says.

Nothing is remembered outside the object: how far the walk is stands in an annotation of it, so that it goes on after an
interruption, from any machine. A revision without an optimization is there to be compared, never to take over: its run
is paused before its first look, and its switch is put back once it has decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from specdecode_operator.api import names
from specdecode_operator.api.canary import slots_of
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.api.types import Spec
from specdecode_operator.build import runrecord
from specdecode_operator.gates.register import MEASURED, SETTLE_WINDOWS
from specdecode_operator.gates.run import digest_of
from specdecode_operator.plan.canary import record as records
from specdecode_operator.plan.canary import requests
from specdecode_operator.plan.canary.asking import planned_of, window_of
from specdecode_operator.plan.canary.consequence import PATIENCE_WINDOWS

Json = Mapping[str, Any]

STUCK: Final = frozenset({names.REASON_UNFIT, names.REASON_INVALID_SPEC, names.REASON_CHILD_REFUSED})
"""Reasons of Progressing for which no run begins: the next optimization would fare no better."""


@dataclass(frozen=True)
class Found:
    """What a canary of one switch came to. Estimates are candidate (switched off) minus stable."""

    optimization: str
    run: str
    outcome: str
    reason: str
    gates: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Walk:
    """How far it is."""

    stable: str
    """The revision that all are compared with."""
    spec: str
    """Digest of all that the spec asks for but switches and replicas: a run of another is about something else."""
    base: tuple[str, ...]
    """What was switched off before, and will be again."""
    todo: tuple[str, ...]
    done: tuple[Found, ...] = ()

    def off(self) -> tuple[str, ...]:
        """All that is switched off while the first of `todo` is looked at."""
        return tuple(sorted({*self.base, self.todo[0]}))

    def with_result(self, found: Found) -> Walk:
        """With the first of `todo` done."""
        return replace(self, todo=self.todo[1:], done=(*self.done, found))


Do = Literal["Switch", "Retry", "Pause", "Take", "Wait", "Stop"]
"""Take: the run has shown what it can. Wait: something is under way. Stop: somebody has to look."""


@dataclass(frozen=True)
class Move:
    """What is next."""

    do: Do
    words: str = ""
    """What is waited for, or why it stops."""
    run: str = ""
    """Of a Retry or Pause."""
    found: Found | None = None
    """Of a Take."""
    ours: bool = True
    """Whether the switches are as this walk has set them; others' are left as they are."""


WALK: Final = TypeAdapter(Walk)


def text_of(walk: Walk) -> str:
    """As the annotation holds it."""
    return json.dumps(asdict(walk), separators=(",", ":"))


def read(found: Json) -> Walk | None:
    """The walk that an object is in; None if there is none, or none that can be read."""
    text = (found["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTRIBUTION)
    try:
        return WALK.validate_json(text) if text else None
    except ValidationError:
        return None


def visible(spec: Spec) -> dict[str, bool]:
    """Optimizations that are on and can be switched off, and whether a gate reads what each of them touches."""
    series = CATALOGUE.carried_by(spec.engine)
    off = spec.engine.optimizations.disable
    read_by_gates = {MEASURED[gate.metric].metric for gate in spec.gates}
    known = series.optimizations if series else ()
    return {
        each.name: bool(read_by_gates & set(each.spans)) for each in known if each.switchable and each.name not in off
    }


def measuring_seconds(spec: Spec) -> float:
    """Settling and measuring of one run, at most."""
    return window_of(spec) * sum(SETTLE_WINDOWS + PATIENCE_WINDOWS + windows for windows in planned_of(spec))


def starting_seconds(spec: Spec) -> float:
    """Its pods' starts, there and back, at most."""
    slots = max(slots_of(step, spec.replicas) for step in spec.rollout.steps)
    settling = spec.traffic.settle_seconds if spec.traffic else 0
    return 2 * slots * (resolve(spec.accelerator).start_seconds + settling)


def at_rest(found: Json) -> bool:
    """Whether one revision holds all slots, as the spec asks, and nothing is under way."""
    status = found.get("status") or {}
    return (
        _is_news(found)
        and not status.get("candidate")
        and not status.get("run")
        and _progressing(found).get("reason") == names.REASON_COMPLETE
    )


def next_move(found: Json, record: Json, walk: Walk) -> Move:
    """What follows for the first of `todo`."""
    status, name = found.get("status") or {}, walk.todo[0]
    stable, off = (status.get("stable") or {}).get("revision"), switched_off(found)
    if off not in (walk.base, walk.off()):
        return Move("Stop", f"somebody has switched off {', '.join(off) or 'nothing'} meanwhile", ours=False)
    if stable != walk.stable:
        return Move("Stop", f"revision {stable} serves now, and the walk is about revision {walk.stable}")
    if pinned(found) != walk.spec:
        return Move("Stop", "somebody has changed the spec meanwhile")
    if off == walk.base:
        return Move("Switch") if at_rest(found) else Move("Wait", "all slots are stable's again")
    if not _is_news(found):
        return Move("Wait", "the operator has seen the change")
    return _of_run(found, record, name)


def _of_run(found: Json, record: Json, name: str) -> Move:
    status = found["status"]
    run, progressing = status.get("run") or {}, _progressing(found)
    if progressing.get("status") == "False" and progressing.get("reason") in STUCK:
        return Move("Stop", progressing["message"])
    if not run.get("id"):
        return _barred(found, progressing) or Move("Wait", run.get("message") or "the run is registered")
    if not record:
        return Move("Wait", f"the record of run {run['id']} can be read")
    if run["phase"] in ("Ended", "Promoting") or _stands_still(record, progressing):
        return Move("Take", found=_result(status, record, name))
    if run["phase"] in ("Settling", "Measuring") and _last_step(run) and not _asked(found, "pause", run["id"]):
        return Move("Pause", run=run["id"])
    return Move("Wait", f"{run['phase']}: {run.get('message', '')}")


def _barred(found: Json, progressing: Json) -> Move | None:
    """A revision that failed in an earlier walk is wanted again."""
    if progressing.get("reason") != names.REASON_REJECTED:
        return None
    rejected = found["status"].get("rejected") or ()
    run = next((each["run"] for each in rejected if each["run"] in progressing["message"]), "")
    return Move("Wait", "the retry is applied") if _asked(found, "retry", run) else Move("Retry", run=run)


def _is_news(found: Json) -> bool:
    """Whether the status is about the spec as it is."""
    return bool((found.get("status") or {}).get("observedGeneration") == found["metadata"].get("generation"))


def _progressing(found: Json) -> Json:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == names.CONDITION_PROGRESSING), {})


def _last_step(run: Json) -> bool:
    at, _, of = str(run.get("step", "")).partition("/")
    return at == of


def _asked(found: Json, verb: str, run: str) -> bool:
    """Whether somebody has asked it of the run: one request is as good as another."""
    status = found["status"].get("request") or {}
    if (status.get("verb"), status.get("run")) == (verb, run) and not status.get("refused"):
        return True
    asked = requests.read(found["metadata"].get("annotations") or {})
    return asked is not None and (asked.verb, asked.run) == (verb, run)


def _verdict(record: Json) -> records.Verdict | None:
    """Of the newest look of the run's step."""
    run = records.read(runrecord.files_of(record).get(runrecord.FILE, ""))
    return run.now.verdict if run is not None and run.now is not None else None


def _stands_still(record: Json, progressing: Json) -> bool:
    """Whether a run has passed while it is paused, or is held. All others end by themselves, and are recorded so."""
    verdict = _verdict(record)
    passed = verdict is not None and verdict.outcome == "Pass"
    return passed or progressing.get("reason") == names.REASON_RUN_HELD


def _result(status: Json, record: Json, name: str) -> Found:
    """As the run ended, or as its newest look has it."""
    run = status["run"]["id"]
    ended = next((each for each in status.get("verdicts") or () if each["run"] == run), None)
    verdict = _verdict(record)
    outcome, reason = "Inconclusive", "NoData"
    if ended is not None:
        outcome, reason = ended["outcome"], ended["reason"]
    elif verdict is not None:
        outcome, reason = verdict.outcome, verdict.reason
    gates = tuple(
        {key: gate.get(key) for key in ("gate", "estimate", "interval", "margin")}
        for gate in runrecord.newest_look(record).get("gates") or ()
    )
    return Found(name, run, outcome, reason, gates)


def pinned(found: Json) -> str:
    """Digest of the spec without switches and replicas."""
    engine = {**found["spec"]["engine"], "optimizations": None}
    return digest_of(json.dumps({**found["spec"], "engine": engine, "replicas": None}, sort_keys=True))


def switched_off(found: Json) -> tuple[str, ...]:
    """What the object switches off, sorted."""
    engine = (found.get("spec") or {}).get("engine") or {}
    return tuple(sorted((engine.get("optimizations") or {}).get("disable") or ()))
