"""One event after the other takes a run further. Each changes the record; nothing is acted on before that is written.

| event                                            | the record then says                  |
|--------------------------------------------------|---------------------------------------|
| the spec asks for another revision               | Cancelled                             |
| the plan is gone, or the object asks otherwise   | Invalid(PlanChanged)                  |
| somebody asks to promote, abort, pause or resume | Promoted, Aborted, paused, not paused |
| a pod of either arm attests something else       | Invalid(AttestationDiffers)           |
| a pod doesn't get ready in time                  | Aborted(NeverReady)                   |
| all of a step's slots serve                      | when its first window starts          |
| one of them is lost before that                  | that it waits again                   |
| a look was made                                  | its samples and verdict               |
| the verdict decides                              | as `consequence` has it               |
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.build import runrecord
from specdecode_operator.gates.plan import canonical_json
from specdecode_operator.gates.run import RunPlan, RunStep
from specdecode_operator.plan.canary import fresh
from specdecode_operator.plan.canary.consequence import Consequence, consequence
from specdecode_operator.plan.canary.facts import Looked
from specdecode_operator.plan.canary.record import Outcome, Record, StepRecord, Verdict
from specdecode_operator.plan.canary.requests import Request
from specdecode_operator.plan.canary.runs import Run
from specdecode_operator.plan.canary.scene import Scene
from specdecode_operator.plan.observe import Pod
from specdecode_operator.plan.said import sentence
from specdecode_operator.plan.slots import Slot
from specdecode_operator.plan.trouble import of_pod

PLAN_CHANGED: Final = "PlanChanged"
NEVER_READY: Final = "NeverReady"
RECORD_FULL: Final = "RecordFull"
SCRAPES_LATE: Final = 2
"""Scrape intervals after a window's end until it counts as closed."""

START_SLACK: Final = timedelta(minutes=2)
"""Beyond what the startup probe allows: the probe kills the engine then, and its last words are there."""


def advance(it: Scene, run: Run, asked: str, request: Request | None) -> Run:
    """The run after the next event; the same one if there is none.

    `asked` is the digest of what the object asks for now; `request` one that is about this run and to be applied.
    """
    if run.record.ended is not None:
        return run
    if run.record.candidate != it.wanted:
        words = f"spec asks for revision {it.wanted} now; revision {run.record.candidate} was never judged"
        return _ended(it, run, "Cancelled", "SpecChanged", words)
    if request is not None:
        return _requested(it, run, request)
    if run.plan is None or run.plan.asked != asked:
        what = "its registered plan is gone" if run.plan is None else "the object's gates, rollout or metrics changed"
        return _ended(it, run, "Invalid", PLAN_CHANGED, f"{what}, so nothing can be concluded from this run")
    differs = next((slot.difference for slot in _slots(it, run.record) if slot.difference is not None), None)
    if differs is not None:
        return _ended(it, run, "Invalid", names.REASON_DIFFERS, differs)
    here, now = run.plan.steps[run.record.step], run.record.now
    return _placing(it, run, run.plan, here) if now is None else _measuring(it, run, run.plan, here, now)


def closed_windows(it: Scene, step: RunStep, now: StepRecord, scrape: float) -> int:
    """Windows of a step whose last scrape must have come."""
    seconds = it.now.timestamp() - SCRAPES_LATE * scrape - now.start
    return max(0, min(int(seconds // step.plan.windows.seconds), step.plan.windows.planned))


def placed(it: Scene, record: Record, step: RunStep) -> bool:
    """Whether all of a step's slots serve: attested, settled, and in the route with every other; and the stable ones
    that were restarted for it."""
    candidate, stable = it.arm(record.candidate), it.arm(record.stable)
    routed = it.view is None or (it.view.current and candidate.revision in it.view.revisions)
    whole = candidate.replicas == step.slots and candidate.settled(it.settle, it.now) >= step.slots
    whole = whole and fresh.serve(it, record, step)
    return whole and routed and stable.replicas == it.stays(step.slots) and stable.ready == stable.replicas


def _slots(it: Scene, record: Record) -> tuple[Slot, ...]:
    return (*it.arm(record.candidate).standing, *it.arm(record.stable).standing)


def _ended(it: Scene, run: Run, outcome: Outcome, reason: str, words: str) -> Run:
    return replace(run, record=run.record.end(outcome, reason, sentence(words), it.now))


def _requested(it: Scene, run: Run, request: Request) -> Run:
    record = run.record.model_copy(update={"request": request.id})
    because = f": {request.reason}" if request.reason else ""
    words = f"asked to {request.verb} by {request.who}{because}"
    if request.verb in ("pause", "resume"):
        return replace(run, record=record.model_copy(update={"paused": request.verb == "pause"}))
    outcome: Outcome = "Promoted" if request.verb == "promote" else "Aborted"
    return _ended(it, replace(run, record=record), outcome, "ByRequest", words)


def _placing(it: Scene, run: Run, plan: RunPlan, step: RunStep) -> Run:
    restarted = fresh.young(it, run.record).slots if fresh.wanted(step) else ()
    starting = (*it.pods(run.record.candidate), *(slot.leader for slot in restarted))
    late = next((pod for pod in starting if _overdue(it, pod)), None)
    if late is not None:
        trouble = of_pod(late, None)
        why = trouble.message if trouble else f"pod {late.name} isn't ready"
        limit = f"{it.start_limit.total_seconds() / 60:g} minutes"
        whose = "the candidate" if late.revision == run.record.candidate else "a stable slot restarted for it"
        return _ended(it, run, "Aborted", NEVER_READY, f"{whose} wasn't ready within {limit}: {why}")
    if not placed(it, run.record, step):
        return run
    start = it.now.timestamp() + plan.settle_windows * step.plan.windows.seconds
    begun = run.record.with_step(StepRecord(start=start, cohort=_cohort(it, run.record, step)))
    files = {**run.files, runrecord.plan_file(run.record.step): canonical_json(step.starting(start))}
    return replace(run, record=begun, files=files)


def _cohort(it: Scene, record: Record, step: RunStep) -> tuple[str, ...]:
    """Stable pods that are compared: those on nodes with a history, and young ones where they may be elsewhere."""
    trays = {tray.node for tray in step.plan.trays}
    elsewhere = fresh.young(it, record).slots if fresh.wanted(step) and step.plan.unseen_trays else ()
    known = {pod.uid for pod in it.pods(record.stable) if pod.node in trays}
    return tuple(sorted(known | {slot.leader.uid for slot in elsewhere}))


def _overdue(it: Scene, pod: Pod) -> bool:
    return not pod.ready and it.now - pod.created > it.start_limit + START_SLACK


def _measuring(it: Scene, run: Run, plan: RunPlan, step: RunStep, now: StepRecord) -> Run:
    if it.now.timestamp() < now.start:
        return run if placed(it, run.record, step) else replace(run, record=run.record.with_step(None))
    looked = it.evidence.answer if it.evidence else None
    if isinstance(looked, Looked) and _is_news(run.record, now, looked):
        return _with_look(it, run, now, looked)
    elapsed = int((it.now.timestamp() - now.start) // step.plan.windows.seconds)
    return _decided(it, run, plan, consequence(step, now.verdict, through=now.through, elapsed=elapsed))


def _is_news(record: Record, now: StepRecord, looked: Looked) -> bool:
    return (looked.run, looked.step) == (record.id, record.step) and looked.through > now.through


def _with_look(it: Scene, run: Run, now: StepRecord, looked: Looked) -> Run:
    verdict = Verdict.model_validate(
        {
            "outcome": looked.outcome,
            "reason": looked.reason,
            "sentence": looked.sentence,
            "decidedAt": looked.decided_at,
        }
    )
    step = now.model_copy(update={"through": looked.through, "verdict": verdict})
    packed = {
        **run.packed,
        runrecord.samples_file(looked.step): looked.samples,
        runrecord.looks_file(looked.step): looked.looks,
    }
    if runrecord.size_of(run.files, packed) > runrecord.LARGEST:
        words = f"its record would pass {runrecord.LARGEST // 1024} KiB: raise spec.metrics.window, or take fewer gates"
        return _ended(it, run, "Invalid", RECORD_FULL, words)
    return replace(run, record=run.record.with_step(step), packed=packed)


def _decided(it: Scene, run: Run, plan: RunPlan, found: Consequence) -> Run:
    if found.do == "Reject":
        return _ended(it, run, "Fail", found.reason, found.words)
    if found.do == "Return":
        now = run.record.now
        invalid = now is not None and now.verdict is not None and now.verdict.outcome == "Invalid"
        return _ended(it, run, "Invalid" if invalid else "Inconclusive", found.reason, found.words)
    if it.desired.spec.rollout.paused or run.record.paused:
        return run
    if found.do == "Promote":
        return _ended(it, run, "Pass", found.reason, found.words)
    if found.do == "Next" and run.record.step + 1 < len(plan.steps):
        return replace(run, record=run.record.next_step(it.now))
    return run
