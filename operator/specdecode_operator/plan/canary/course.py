"""What follows from where a run stands: who takes slots, what is written, what is said, what is asked next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from specdecode_operator.api import names
from specdecode_operator.api.canary import seconds
from specdecode_operator.api.conditions import get_condition
from specdecode_operator.api.status import RejectedStatus, RequestStatus, RunStatus, VerdictStatus
from specdecode_operator.build import runplan, runrecord
from specdecode_operator.gates import run as registered
from specdecode_operator.gates import told
from specdecode_operator.gates.register import few_slots
from specdecode_operator.gates.rules import REFERENCE_PODS
from specdecode_operator.gates.run import RunPlan
from specdecode_operator.plan.actions import Event
from specdecode_operator.plan.canary import asking, fresh, record, requests, transition
from specdecode_operator.plan.canary.consequence import consequence
from specdecode_operator.plan.canary.facts import Answer, Evidence, Look, Refused, Register, Unavailable, Want
from specdecode_operator.plan.canary.moves import holds_slots
from specdecode_operator.plan.canary.record import PROMOTING, Ended, Record
from specdecode_operator.plan.canary.runs import Run, current, outdated, runs_of
from specdecode_operator.plan.canary.scene import Scene
from specdecode_operator.plan.observe import Json, Revision
from specdecode_operator.plan.said import Said, all_serve, sentence
from specdecode_operator.plan.slots import Slot

PLANNING: Final = "Planning"
SWAPPING: Final = "Swapping"
SETTLING: Final = "Settling"
MEASURING: Final = "Measuring"
JUDGING: Final = "Judging"
PROMOTING_PHASE: Final = "Promoting"
ENDED: Final = "Ended"

LISTED: Final = 10
"""Verdicts and rejected revisions that status lists."""
RETRY: Final = timedelta(seconds=15)
"""How often metrics that are missing are asked for again."""
RECONSIDER: Final = timedelta(minutes=5)
"""How often a run that was refused is tried again: history grows."""


@dataclass(frozen=True)
class Course:
    """What follows."""

    target: Revision
    """Who takes slots: the candidate as far as its step goes, else stable."""
    slots: int | None = None
    """How many it may hold at most; None: all."""
    trays: tuple[str, ...] = ()
    """Nodes whose slots go first."""
    restart: Slot | None = None
    """A stable slot to restart, so that a slot of the candidate has one of its age to be compared with."""
    returning: bool = False
    """Whether a run has ended and its slots go back."""
    candidate: Revision | None = None
    run: RunStatus | None = None
    verdicts: tuple[VerdictStatus, ...] = ()
    rejected: tuple[RejectedStatus, ...] = ()
    request: RequestStatus | None = None
    unproven: bool = False
    """Whether what serves has never held all its slots, so that nothing need be proven against it."""
    ungated: bool = False
    """Whether the target takes over as with strategy Replace."""
    writes: tuple[Json, ...] = ()
    removals: tuple[Json, ...] = ()
    progressing: Said | None = None
    healthy: Said | None = None
    metrics: Said | None = None
    events: tuple[Event, ...] = ()
    want: Want | None = None
    again: datetime | None = None


def course(it: Scene) -> Course:
    """What follows now. The object's strategy is Canary, its spec is valid, and a revision serves or is to."""
    runs = runs_of(it.desired.name, it.config_maps)
    before = it.desired.status
    run = current(runs, before, it.stable, it.wanted)
    rejected = before.rejected or ()
    request = requests.read(it.desired.annotations, verified=it.verified_requests)
    new = request is not None and (before.request is None or before.request.id != request.id)
    applied = request is not None and run is not None and run.record.request == request.id
    refused = (
        requests.refusal(request, run.record if run else None, rejected) if request and new and not applied else ""
    )
    told = request.applied(refused) if request and new else before.request
    due = request if request and new and not applied and not refused else None
    retried = due is not None and due.verb == "retry"
    notes = Course(
        target=it.stable,
        verdicts=before.verdicts or (),
        rejected=tuple(each for each in rejected if not (retried and due and each.run == due.run)),
        request=told,
        removals=outdated(runs, it.config_maps, run.record.id if run else None),
        metrics=_metrics(it),
        events=tuple(_request_events(due, request if refused else None, refused)),
    )
    if retried and run is not None and due is not None and run.record.id == due.run:
        run = None
    return _follow(it, notes, runs, run, None if retried else due)


def _follow(
    it: Scene, notes: Course, runs: tuple[Run, ...], run: Run | None, request: requests.Request | None
) -> Course:
    """The course by the first of these that holds."""
    asked = asking.digest(it.desired.spec)
    lost = it.desired.status.run
    if run is None and lost is not None and lost.id is not None and lost.phase != ENDED:
        return _lost(it, notes, lost)
    if run is not None and not _settled_before(it, run, asked):
        return _of_run(it, notes, run, transition.advance(it, run, asked, request))
    if it.wanted == it.stable:
        return replace(notes, unproven=_unproven(it), returning=_foreign(it))
    if _unproven(it):
        return replace(notes, target=it.wanted, candidate=it.wanted, unproven=True, ungated=True)
    barred = next((each for each in notes.rejected if each.revision == it.wanted), None)
    if barred is not None:
        return _barred(it, notes, barred, run)
    if _foreign(it):
        return replace(notes, returning=True, progressing=_returning(it))
    return _planning(it, notes, runs)


def _settled_before(it: Scene, run: Run, asked: str) -> bool:
    """Whether a run has ended and says nothing any more of what is wanted now."""
    ended = run.record.ended
    if ended is None:
        return False
    told = any(each.run == run.record.id for each in it.desired.status.verdicts or ())
    if not told:
        return False
    same = (run.record.stable, run.record.candidate) == (it.stable, it.wanted)
    if same and ended.outcome in PROMOTING:
        return False
    return not same or run.plan is None or run.plan.asked != asked


# --- A run ------------------------------------------------------------------------------------------------------------


def _of_run(it: Scene, notes: Course, before: Run, run: Run) -> Course:
    """The run as it is after the event, and what is to be written of it."""
    changed = run != before
    notes = replace(
        notes,
        candidate=Revision(run.record.candidate),
        writes=(_manifest(it, run),) if changed else (),
        events=(*notes.events, *_run_events(before.record, run.record, run.plan)),
        again=it.now + timedelta(seconds=1) if changed else None,
    )
    if changed or (run.plan is None and run.record.ended is None):
        return _standing(it, notes, before)
    if run.record.ended is not None:
        return _ended(it, _with_verdict(notes, run, run.record.ended), run, run.record.ended)
    assert run.plan is not None
    return _going_on(it, notes, run, run.plan)


def _standing(it: Scene, notes: Course, run: Run) -> Course:
    """Slots as they are, and status too: what was just written is acted on once it is seen."""
    arm, said = it.arm(run.record.candidate), get_condition(it.desired.status.conditions, names.CONDITION_PROGRESSING)
    notes = _beside(it, notes, arm.revision, arm.replicas)
    if said is not None:
        notes = replace(notes, progressing=Said(said.status, said.reason, said.message))
    before = it.desired.status.run
    if before is not None and before.id == run.record.id:
        return replace(notes, run=before)
    return _status(it, notes, run, PLANNING, f"Run {run.record.id} begins.")


def _beside(it: Scene, notes: Course, candidate: Revision, slots: int) -> Course:
    """So many slots for the candidate beside stable's. Where stable has none (scaled to zero, or back from there) they
    are stable's first: nobody takes all without evidence."""
    if it.arm(it.stable).empty or not it.replicas:
        return replace(notes, target=it.stable, slots=None)
    return replace(notes, target=candidate, slots=slots)


def _going_on(it: Scene, notes: Course, run: Run, plan: RunPlan) -> Course:
    step, now = plan.steps[run.record.step], run.record.now
    arm = it.arm(run.record.candidate)
    paused = run.record.paused or it.desired.spec.rollout.paused
    room = min(step.slots, max(it.replicas + it.surge - max(REFERENCE_PODS, fresh.wanted(step)), 0))
    slots = min(room, fresh.may_hold(it, run.record, step))
    slots = min(slots, arm.replicas) if paused and now is None else slots
    notes = _beside(it, replace(notes, trays=fresh.trays_to_go(it, run.record, plan.trays)), arm.revision, slots)
    held = f" It is paused with {arm.replicas} slots." if paused else ""
    if now is None:
        return _placing(it, notes, run, plan, room, held)
    start = datetime.fromtimestamp(now.start, UTC)
    if it.now < start:
        words = f"{all_serve(step.slots)}; the first window starts at {start:%H:%M:%S} UTC.{held}"
        return _healthy(_status(it, replace(notes, again=start), run, SETTLING, words), paused, words)
    return _looking(it, notes, run, plan, paused=paused)


def _placing(it: Scene, notes: Course, run: Run, plan: RunPlan, room: int, held: str) -> Course:
    """Slots are on their way, or settle."""
    step, arm, young = plan.steps[run.record.step], it.arm(run.record.candidate), fresh.young(it, run.record)
    moving = arm.replicas < step.slots or len(arm.standing) < arm.replicas or len(young.slots) < fresh.wanted(step)
    serve = f"{arm.settled(it.settle, it.now)} of {step.slots} slots of revision {arm.revision} serve"
    if fresh.wanted(step):
        serve += f", and {young.settled(it.settle, it.now)} of {fresh.wanted(step)} stable slots restarted for them"
    words = f"{serve}.{held}"
    if room < step.slots:
        words = f"{it.replicas} replicas leave no {step.slots} slots to a candidate; the run waits for more.{held}"
    settling = [at for each in (arm, young) if (at := each.next_settles(it.settle, it.now)) is not None]
    restart = None if held else fresh.next_restart(it, run.record, step, plan.trays)
    notes = replace(notes, restart=restart, again=min(settling, default=it.now + timedelta(seconds=30)))
    return _healthy(_status(it, notes, run, SWAPPING if moving else SETTLING, words), bool(held), words)


def _looking(it: Scene, notes: Course, run: Run, plan: RunPlan, *, paused: bool) -> Course:
    step, now = plan.steps[run.record.step], run.record.now
    assert now is not None
    scrape = seconds(it.desired.spec.metrics.scrape_interval)
    window = step.plan.windows.seconds
    closed = transition.closed_windows(it, step, now, scrape)
    decided = now.verdict is not None and now.verdict.decided_at is not None
    want = None if decided or closed <= now.through else _look(it, run, plan, closed, scrape)
    elapsed = int((it.now.timestamp() - now.start) // window)
    found = consequence(step, now.verdict, through=now.through, elapsed=elapsed)
    closes = now.start + (closed + 1) * window + transition.SCRAPES_LATE * scrape
    again = max(datetime.fromtimestamp(closes, UTC), it.now + timedelta(seconds=1))
    if want is not None and notes.metrics is not None and notes.metrics.status == "False":
        again = min(again, it.now + RETRY)
    notes = replace(notes, want=want, again=again)
    so_far = now.verdict.sentence if now.verdict else "No window has been looked at yet."
    count = f"{now.through} of {step.plan.windows.planned} windows"
    if found.do == "Hold":
        words = f"Undecided after {count}, so its slots are held: promote, abort, or change the spec. {found.words}"
        held = Said("False", names.REASON_RUN_HELD, words)
        return replace(_status(it, notes, run, JUDGING, words), healthy=held, progressing=held)
    phase = JUDGING if decided or elapsed >= step.plan.windows.planned else MEASURING
    words = f"{count}. {so_far}" + (" It is paused." if paused else "")
    return _healthy(_status(it, notes, run, phase, words), paused, words)


def _look(it: Scene, run: Run, plan: RunPlan, closed: int, scrape: float) -> Look:
    index, now = run.record.step, run.record.now
    assert now is not None
    asked = asking.asked(it, ())
    return Look(
        run=run.record.id,
        step=index,
        through=closed,
        plan=plan.steps[index].starting(now.start),
        recorded=now.through,
        cohort=frozenset(now.cohort),
        metrics=tuple(dict.fromkeys((*asked.metrics, *told.TOLD))),
        histograms=tuple(dict.fromkeys((*asked.histograms, told.LENGTHS))),
        scrape=scrape,
        backend=it.desired.spec.metrics.backend or "",
        samples=run.packed.get(runrecord.samples_file(index), b""),
        looks=run.packed.get(runrecord.looks_file(index), b""),
    )


def _healthy(course: Course, paused: bool, words: str) -> Course:
    """A run that goes on, or waits because somebody wanted it to."""
    reason = names.REASON_PAUSED if paused else names.REASON_CANARY
    said = Said("True", reason, words)
    return replace(course, progressing=said, healthy=Said("True", names.REASON_RUN_GOES_ON, words))


def _ended(it: Scene, notes: Course, run: Run, ended: Ended) -> Course:
    wanted = run.record.candidate == it.wanted
    if ended.outcome in PROMOTING and wanted:
        paused = it.desired.spec.rollout.paused
        slots = it.arm(run.record.candidate).replicas if paused else None
        to_all = replace(notes, target=Revision(run.record.candidate), slots=slots)
        words = f"{ended.message} Revision {run.record.candidate} takes all slots."
        return replace(_status(it, to_all, run, PROMOTING_PHASE, words), healthy=_good(words))
    told = _status(it, replace(notes, returning=True), run, ENDED, ended.message)
    if not wanted:
        return replace(told, candidate=None)
    words = f"{ended.message} Revision {it.stable} keeps all slots. To try again, ask to retry, or change the spec."
    bad = Said("False", names.REASON_RUN_ENDED, words)
    if ended.outcome == "Fail":
        bad = Said("False", names.REASON_REJECTED, words)
    return replace(told, progressing=bad, healthy=bad, candidate=_held(it, run.record.candidate))


def _held(it: Scene, revision: str) -> Revision | None:
    """The candidate, while it holds a slot."""
    return None if it.arm(revision).empty else Revision(revision)


def _with_verdict(notes: Course, run: Run, ended: Ended) -> Course:
    """With the run's end in the lists, once."""
    if any(each.run == run.record.id for each in notes.verdicts):
        return notes
    here = VerdictStatus(
        run=run.record.id,
        revision=run.record.candidate,
        step=_step_of(run.record, run.plan),
        outcome=ended.outcome,
        reason=ended.reason,
        message=ended.message[:1024],
        time=ended.at,
    )
    rejected = notes.rejected
    if ended.outcome == "Fail":
        failed = RejectedStatus(revision=here.revision, run=here.run, reason=here.reason, time=here.time)
        rejected = (*(each for each in rejected if each.revision != failed.revision), failed)[-LISTED:]
    return replace(notes, verdicts=(*notes.verdicts, here)[-LISTED:], rejected=rejected)


def _lost(it: Scene, notes: Course, lost: RunStatus) -> Course:
    """The run that status names has no record any more: nothing can be concluded from it, and nobody promotes it."""
    words = f"The record of run {lost.id} is gone, so nothing can be concluded from it."
    ended = Ended(outcome="Invalid", reason=transition.PLAN_CHANGED, message=words, at=it.now)
    verdict = VerdictStatus(
        run=lost.id or "",
        revision=lost.candidate or "",
        step=lost.step,
        outcome=ended.outcome,
        reason=ended.reason,
        message=ended.message,
        time=ended.at,
    )
    told = lost.model_copy(update={"phase": ENDED, "message": words, "since": it.now})
    bad = Said("False", names.REASON_RUN_ENDED, words)
    return replace(
        notes,
        returning=True,
        run=told,
        verdicts=(*notes.verdicts, verdict)[-LISTED:],
        progressing=bad,
        healthy=bad,
        events=(*notes.events, Event("Warning", "CanaryInvalid", words)),
    )


# --- Before a run -----------------------------------------------------------------------------------------------------


def _planning(it: Scene, notes: Course, runs: tuple[Run, ...]) -> Course:
    asked = asking.asked(it, runs)
    few = few_slots(asked)
    if few:
        return _unfit(it, notes, f"Revision {it.wanted} can't be proven: {few}.")
    spec = it.desired.spec
    want = Register(asked, seconds(spec.metrics.scrape_interval), spec.metrics.backend or "")
    answer = _answer(it.evidence, want)
    notes = replace(notes, want=want, again=it.now + RETRY)
    if isinstance(answer, RunPlan):
        return _registered(it, notes, answer)
    if isinstance(answer, Refused):
        words = f"Revision {it.wanted} can't be proven, so nothing moves ({answer.reason}). {sentence(answer.words)}"
        return replace(_unfit(it, notes, words), again=it.now + RECONSIDER)
    waits = answer.why if isinstance(answer, Unavailable) else "the stable pods' history is being read"
    words = f"Revision {it.wanted} is to be compared with revision {it.stable}; {sentence(waits)}"
    said = Said("True", names.REASON_PLANNING, words)
    return replace(notes, candidate=it.wanted, run=_planned_status(it, words), progressing=said)


def _answer(evidence: Evidence | None, want: Want) -> Answer | None:
    return evidence.answer if evidence is not None and evidence.want == want.id else None


def _unfit(it: Scene, notes: Course, words: str) -> Course:
    said = Said("False", names.REASON_UNFIT, f"{words} To go without proof, set spec.rollout.strategy to Replace.")
    return replace(notes, run=_planned_status(it, words), progressing=said, healthy=said)


def _registered(it: Scene, notes: Course, plan: RunPlan) -> Course:
    """The plan is written first; the run begins once it is seen."""
    text = registered.text_of(plan)
    first = Record(
        id=plan.id,
        stable=plan.stable,
        candidate=plan.candidate,
        plan=registered.digest_of(text),
        registered=it.now,
        since=it.now,
        before=tuple(sorted(pod.uid for pod in it.pods(plan.stable))) if fresh.wanted(plan.steps[-1]) else (),
    )
    files = {runrecord.FILE: record.text_of(first)}
    words = f"Run {plan.id} is registered: {len(plan.steps)} steps, the last with {plan.steps[-1].slots} slots."
    notes = replace(
        notes,
        candidate=it.wanted,
        want=None,
        writes=(runplan.build(it.owner, plan.id, text), runrecord.build(it.owner, plan.id, files, {})),
        events=(*notes.events, Event("Normal", "CanaryRegistered", _announced(plan, words))),
        again=it.now + timedelta(seconds=1),
        progressing=Said("True", names.REASON_PLANNING, words),
    )
    return _status(it, notes, Run(first, plan, files, {}), PLANNING, words)


def _announced(plan: RunPlan, words: str) -> str:
    finds = ", ".join(f"{gate} {100 * effect:.2f}%" for gate, effect in sorted(plan.detectable.items()))
    return f"{words} Revision {plan.candidate} against {plan.stable}; smallest effects it can find: {finds}."


def _barred(it: Scene, notes: Course, failed: RejectedStatus, run: Run | None) -> Course:
    words = (
        f"Revision {it.wanted} failed in run {failed.run} ({failed.reason}) and isn't tried again; revision "
        f"{it.stable} keeps all slots. To try again, ask to retry run {failed.run}."
    )
    said = Said("False", names.REASON_REJECTED, words)
    return replace(notes, returning=True, progressing=said, healthy=said, candidate=_held(it, it.wanted))


def _foreign(it: Scene) -> bool:
    """Whether a revision other than stable still holds a slot: a run begins with stable alone."""
    return holds_slots(it.arms, it.stable)


def _returning(it: Scene) -> Said:
    return Said("True", names.REASON_CANARY, f"Revision {it.stable} takes all slots back before the next run begins.")


def _unproven(it: Scene) -> bool:
    """Whether the first revision has yet to hold all its slots."""
    before = it.desired.status.stable
    return (before is None and _nothing_held(it)) or (before is not None and bool(before.unproven))


def _nothing_held(it: Scene) -> bool:
    return all(arm.empty for arm in it.arms.values())


# --- Saying it --------------------------------------------------------------------------------------------------------


def _step_of(written: Record, plan: RunPlan | None) -> str:
    return f"{written.step + 1}/{len(plan.steps) if plan else '?'}"


def _status(it: Scene, course: Course, run: Run, phase: str, words: str) -> Course:
    """With the run's status; `since` moves only with phase or step."""
    before, step = it.desired.status.run, _step_of(run.record, run.plan)
    same = before is not None and (before.id, before.phase, before.step) == (run.record.id, phase, step)
    status = RunStatus(
        id=run.record.id,
        candidate=run.record.candidate,
        plan=names.run_plan(it.desired.name, run.record.id),
        plan_digest=run.record.plan,
        step=step,
        phase=phase,
        since=before.since if same and before is not None else it.now,
        message=words[:1024],
    )
    return replace(course, run=status)


def _planned_status(it: Scene, words: str) -> RunStatus:
    before = it.desired.status.run
    same = before is not None and before.id is None and before.candidate == it.wanted and before.phase == PLANNING
    steps = len(it.desired.spec.rollout.steps)
    since = before.since if same and before is not None else it.now
    return RunStatus(candidate=it.wanted, step=f"0/{steps}", phase=PLANNING, since=since, message=words[:1024])


def _good(words: str) -> Said:
    return Said("True", names.REASON_RUN_GOES_ON, words)


def _metrics(it: Scene) -> Said | None:
    """Whether the metrics that are wanted come. Until somebody has asked, as before."""
    answer = it.evidence.answer if it.evidence else None
    if isinstance(answer, Unavailable):
        reason = names.REASON_NO_DATA if answer.kind == "NoData" else names.REASON_BACKEND_DOWN
        return Said("False", reason, f"{sentence(answer.why)} Slots stay as they are until it is back.")
    if answer is not None:
        return Said("True", names.REASON_METRICS, f"Backend {it.desired.spec.metrics.backend} gives what is asked.")
    before = get_condition(it.desired.status.conditions, names.CONDITION_METRICS)
    return Said(before.status, before.reason, before.message) if before else None


def _run_events(before: Record, after: Record, plan: RunPlan | None) -> Iterable[Event]:
    if after.ended is not None and before.ended is None:
        kind: Literal["Normal", "Warning"] = "Normal" if after.ended.outcome in PROMOTING else "Warning"
        words = f"Run {after.id} of revision {after.candidate} ended: {after.ended.outcome} ({after.ended.reason})."
        yield Event(kind, f"Canary{after.ended.outcome}", f"{words} {after.ended.message}")
    elif after.step != before.step and plan is not None:
        slots = plan.steps[after.step].slots
        words = f"Nothing spoke against revision {after.candidate}: step {_step_of(after, plan)} takes {slots} slots."
        yield Event("Normal", "CanaryStep", words)
    elif after.now is not None and before.now is None:
        start = datetime.fromtimestamp(after.now.start, UTC)
        words = (
            f"Step {_step_of(after, plan)} of run {after.id}: its slots serve; windows start at {start:%H:%M:%S} UTC."
        )
        yield Event("Normal", "CanaryMeasuring", words)


def _request_events(applied: requests.Request | None, refused: requests.Request | None, why: str) -> Iterable[Event]:
    if applied is not None:
        because = f": {applied.reason}" if applied.reason else ""
        yield Event("Normal", "RequestApplied", f"{applied.who} asked to {applied.verb} run {applied.run}{because}.")
    if refused is not None:
        yield Event("Warning", "RequestRefused", f"Request {refused.id} of {refused.who} isn't applied. {why}.")


def _manifest(it: Scene, run: Run) -> Json:
    files = {**run.files, runrecord.FILE: record.text_of(run.record)}
    return runrecord.build(it.owner, run.record.id, files, run.packed)
