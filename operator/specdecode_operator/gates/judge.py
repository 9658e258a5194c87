"""The verdict: a pure function of the plan and of the windows in their order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specdecode_operator.gates import sentences, traffic
from specdecode_operator.gates.arrays import Flags, Floats
from specdecode_operator.gates.control import drift_limit
from specdecode_operator.gates.course import Cells, Course, Lengths, follow, follow_acceptance
from specdecode_operator.gates.decide import first_decision, losses, uneven
from specdecode_operator.gates.distributions import t_quantile
from specdecode_operator.gates.intake import Fault, Intake, take_in
from specdecode_operator.gates.looks import t_bounds
from specdecode_operator.gates.plan import Gate, Plan, digest
from specdecode_operator.gates.rules import (
    GATES_VERSION,
    HISTORY_STARTS,
    OWN_VARIANCE_PODS,
    P99_MARGINS,
    REFERENCE_PODS,
    TRAY_STARTS,
)
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Arms, ControlReading, GateVerdict, Look, Outcome, Reason, Verdict

OUTCOMES: Mapping[Reason, Outcome] = {
    Reason.WITHIN_MARGIN: Outcome.PASS,
    Reason.BETTER: Outcome.PASS,
    Reason.BEYOND_MARGIN: Outcome.FAIL,
    Reason.BUCKET_BEYOND_MARGIN: Outcome.FAIL,
    Reason.CATASTROPHE: Outcome.FAIL,
    Reason.CANDIDATE_CRASHED: Outcome.FAIL,
    **dict.fromkeys(
        (
            Reason.MEASURING,
            Reason.UNDECIDED,
            Reason.NEUTRAL,
            Reason.GUARDED,
            Reason.DRIFT,
            Reason.NOT_SETTLED,
            Reason.BUCKET_DOUBTFUL,
            Reason.BASELINE_APART,
            Reason.FEW_PODS,
            Reason.FEW_REQUESTS,
            Reason.NO_DATA,
            Reason.ARM_SILENT,
        ),
        Outcome.INCONCLUSIVE,
    ),
}
"""What each reason comes to; all others make the run Invalid."""


def outcome_of(reason: Reason) -> Outcome:
    """The outcome that a reason belongs to."""
    return OUTCOMES.get(reason, Outcome.INVALID)


def judge(plan: Plan, samples: Iterable[Sample], *, through: int | None = None, now: float | None = None) -> Verdict:
    """Judge the first `through` windows of a run (default: as many as there are samples of).

    `now`, in seconds since the epoch, is the judge's time if it has one; samples from later are a fault.
    """
    unfit = next(unfit_plan(plan), None)
    if unfit is not None:
        return _unjudged(plan, *unfit)
    known = tuple(samples)
    verdict = _judged(plan, known, through, now)
    if verdict.decided_at is None or (through is not None and through <= verdict.decided_at):
        return verdict
    # The run ended there, for every gate: what came after is not part of it.
    return _judged(plan, known, verdict.decided_at, now)


def _judged(plan: Plan, samples: Iterable[Sample], through: int | None, now: float | None) -> Verdict:
    intake = take_in(plan, samples, through=through, now=now)
    fault = intake.faults[0] if intake.faults else None
    if not intake.elapsed or not intake.pods:
        return _unjudged(plan, *((fault.reason, fault.detail) if fault else (Reason.NO_DATA, "there are no samples")))
    return _together(plan, _follow_all(intake, fault), fault)


def unfit_plan(plan: Plan) -> Iterator[tuple[Reason, str]]:
    """Why nothing may be moved for this plan: said before the first swap, and again by the judge."""
    if plan.gates_version != GATES_VERSION:
        yield (
            Reason.PLAN_VERSION,
            f"the plan is of gates version {plan.gates_version}, this judge of {GATES_VERSION}; use the one it names",
        )
    if plan.stable.pods < REFERENCE_PODS:
        yield (
            Reason.UNDERPOWERED,
            f"{plan.stable.pods} stable pod can't be compared with others; {REFERENCE_PODS} are needed",
        )
    for gate in plan.gates:
        yield from _unfit_gate(plan, gate)


def _unfit_gate(plan: Plan, gate: Gate) -> Iterator[tuple[Reason, str]]:
    restarted = f", {plan.fresh.pods} of them restarted," if plan.fresh else ""
    if plan.spread_pods < OWN_VARIANCE_PODS and gate.noise.starts < HISTORY_STARTS:
        yield (
            Reason.UNDERPOWERED,
            f"gate {gate.name}: {plan.stable.pods} stable pods{restarted} say too little of their own spread; "
            f"{OWN_VARIANCE_PODS}, or a noise history of {HISTORY_STARTS} pod starts (found {gate.noise.starts})",
        )
    if gate.tracking is not None and gate.tracking.starts < TRAY_STARTS:
        yield (
            Reason.UNDERPOWERED,
            f"gate {gate.name}: tracking needs the spread of {TRAY_STARTS} restarts (found {gate.tracking.starts})",
        )
    if gate.measure == "span" and gate.control is None:
        yield Reason.NO_CONTROL, f"gate {gate.name} has no control: a slow machine would look like a slow revision"
    if gate.control is not None and gate.control.span.metric in {*plan.touched, gate.span.metric}:
        yield (
            Reason.NO_CONTROL,
            f"gate {gate.name}: the change can touch its control {gate.control.span.metric}; use the fixed probe",
        )
    if gate.control is not None:
        blank = sorted(tray.node for tray in plan.trays if gate.name not in tray.baseline)
        if blank:
            yield (
                Reason.NO_CONTROL,
                f"gate {gate.name}: {len(blank)} trays have no baseline of its control (the first is {blank[0]})",
            )
    least = next((margin for pods, margin in P99_MARGINS if plan.candidate.pods >= pods), math.inf)
    if gate.span.statistic == "p99" and gate.margin < least:
        yield (
            Reason.UNDERPOWERED,
            f"gate {gate.name}: a p99 from buckets needs a margin of {least:.0%} with "
            f"{plan.candidate.pods} candidate pods (found {gate.margin:.0%}); gate the mean",
        )


@dataclass(frozen=True)
class _Followed:
    """A gate with its course and where it decides."""

    gate: Gate
    course: Course
    at: int
    """Index of the window; -1 if it is undecided."""
    reason: Reason


def _follow_all(intake: Intake, fault: Fault | None) -> tuple[GateVerdict, ...]:
    """Each gate's verdict. A catastrophe counts until the run as a whole has decided."""
    around = traffic.obstacles(intake)
    usable = np.arange(intake.elapsed) < (intake.elapsed if fault is None else fault.window)
    followed = [_followed(intake, gate, around, usable, fault) for gate in intake.plan.gates]
    decided = all(outcome_of(each.reason) is Outcome.PASS for each in followed)
    end = max(each.at for each in followed) if decided else intake.elapsed - 1
    return tuple(_result(intake, _stopped(each, usable, end), fault) for each in followed)


def _followed(
    intake: Intake, gate: Gate, around: Mapping[Reason, Flags], usable: Flags, fault: Fault | None
) -> _Followed:
    plan = intake.plan
    course = course_of(intake, gate)
    course = replace(course, stops=course.stops & usable)
    around = {**around, Reason.FEW_REQUESTS: around[Reason.FEW_REQUESTS] | traffic.too_few(intake, gate.requests)}
    fit = ~np.logical_or.reduce(list(around.values())) & usable
    decision = first_decision(course, intake.stable, fit, may_pass=plan.role == "decide")
    at = int(decision.at)
    if at < 0:
        reason = fault.reason if fault else _undecided(intake, gate, course, around)
    elif decision.passed:
        reason = Reason.BETTER if gate.kind == "superior" else Reason.WITHIN_MARGIN
    elif course.stops[at]:
        reason = Reason.CATASTROPHE
    else:
        reason = Reason.BEYOND_MARGIN if course.fails[at] else Reason.BUCKET_BEYOND_MARGIN
    return _Followed(gate, course, at, reason)


def _stopped(followed: _Followed, usable: Flags, end: int) -> _Followed:
    """A catastrophe after this gate's own Pass, while others were still open."""
    stops = followed.course.stops & usable
    stops[end + 1 :] = False
    if outcome_of(followed.reason) is Outcome.FAIL or not stops.any():
        return followed
    return replace(followed, at=int(stops.argmax()), reason=Reason.CATASTROPHE)


def course_of(intake: Intake, gate: Gate) -> Course:
    """A gate's course over the run's windows, for verdicts and for reports."""
    if gate.measure == "acceptance":
        return follow_acceptance(intake.plan, gate, intake.sides, _lengths(intake, gate))
    values, counts, weights = intake.span(gate.span)
    control, control_weights = np.zeros((*values.shape[:-1], 0)), np.zeros(0)
    if gate.control is not None:
        control, _, control_weights = intake.span(gate.control.span)
    cells = Cells(values, counts, weights, control, control_weights)
    return follow(intake.plan, gate, intake.sides, intake.trays(gate.name), cells)


def _lengths(intake: Intake, gate: Gate) -> Lengths:
    series = intake.series(gate.span.metric, gate.span.step)
    kept = (intake.spent == "") & ~intake.missing(gate.span)
    tokens, drafts = series.sums.sum(axis=-1), series.counts.sum(axis=-1)
    kept &= drafts >= gate.span.min_count
    return Lengths(tokens, drafts, kept, _running(intake, drafts))


def _running(intake: Intake, drafts: Floats) -> Floats:
    """Requests running on each pod: each drafts once a step. Steps are those of the first time that is judged."""
    steps = np.zeros_like(drafts)
    span = next((gate.span for gate in intake.plan.gates if gate.measure == "span"), None)
    for metric, step in intake.rows if span else ():
        if span and metric == span.metric:
            steps += intake.series(metric, step).counts.sum(axis=-1)
    unknown: Floats = np.full(drafts.shape, np.inf)
    return np.divide(drafts, steps, out=unknown, where=steps > 0)


def _undecided(intake: Intake, gate: Gate, course: Course, around: Mapping[Reason, Flags]) -> Reason:
    """Why there is no decision: before the planned end more windows may bring one; at the end, the gravest obstacle."""
    plan, last = intake.plan, intake.elapsed - 1
    kept = course.kept.any(axis=-1)
    if not kept.any():
        return Reason.NO_DATA
    if not (kept & intake.stable).any() or not (kept & ~intake.stable).any():
        return Reason.ARM_SILENT
    if intake.elapsed < plan.windows.planned:
        return Reason.MEASURING
    if uneven(losses(course.lost, intake.stable), (last,)):
        return Reason.ASYMMETRIC_LOSS
    for reason, stands in (*around.items(), *course.obstacles.items()):
        if stands[last]:
            return reason
    if plan.role == "guard":
        return Reason.GUARDED
    return Reason.NEUTRAL if gate.kind == "superior" else Reason.UNDECIDED


def _result(intake: Intake, followed: _Followed, fault: Fault | None) -> GateVerdict:
    gate, course, at = followed.gate, followed.course, followed.at
    last = at if at >= 0 else intake.elapsed - 1
    looks = tuple(_look(gate, course, window) for window in range(last + 1))
    here = looks[last]
    stable_requests, candidate_requests = traffic.arms(intake, intake.requests)
    verdict = GateVerdict(
        gate=gate.name,
        outcome=outcome_of(followed.reason),
        reason=followed.reason,
        sentence="",
        kind=gate.kind,
        margin=gate.margin,
        estimate=here.estimate,
        interval=None if here.lower is None or here.upper is None else (here.lower, here.upper),
        decided_at=at + 1 if at >= 0 else None,
        windows=last + 1,
        planned=intake.plan.windows.planned,
        spent=_spent(intake, gate, course, last),
        kept=_by_arm(intake.stable, course.kept[:, : last + 1]),
        pods=Arms(int(course.found.stable[last]), int(course.found.candidate[last])),
        requests=Arms(int(stable_requests[last]), int(candidate_requests[last])),
        smallest_detectable=_smallest(intake.plan, course, last),
        control=_control(gate, course, last),
        looks=looks,
    )
    return replace(verdict, sentence=sentences.of_gate(verdict, fault.detail if fault and at < 0 else ""))


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _look(gate: Gate, course: Course, window: int) -> Look:
    """In the metric's own direction: candidate minus stable."""
    low, high = sorted((gate.sign * course.lower[window], gate.sign * course.upper[window]))
    return Look(
        window=window + 1,
        estimate=_number(gate.sign * course.found.estimate[window]),
        lower=_number(low),
        upper=_number(high),
        drift=_number(course.drift[window]) if gate.control else None,
    )


def spending(intake: Intake, gate: Gate, course: Course) -> NDArray[np.str_]:
    """[pods, windows]: the first reason why each wasn't used; empty if it was."""
    found: NDArray[np.str_] = np.where(course.kept, "", intake.spent)
    for reason, where in (
        ("missing", intake.missing(gate.span)),
        ("thin", course.lost),
        ("control", np.ones_like(course.kept)),
    ):
        found = np.where((found == "") & ~course.kept & where, reason, found)
    return found


def _spent(intake: Intake, gate: Gate, course: Course, last: int) -> dict[str, Arms]:
    """Windows of pods that weren't used, each by its first reason."""
    reasons = spending(intake, gate, course)[:, : last + 1]
    return {str(reason): _by_arm(intake.stable, reasons == reason) for reason in np.unique(reasons) if reason}


def _by_arm(stable: Flags, windows: Flags) -> Arms:
    return Arms(int(windows[stable].sum()), int(windows[~stable].sum()))


def _smallest(plan: Plan, course: Course, last: int) -> float | None:
    """(t_last + t_.95) SE: the effect beyond which 95 of 100 runs as precise as this one now is would decide."""
    degrees = course.degrees[..., last]
    if degrees < 1:
        return None
    return _number((_last_bound(plan, int(degrees)) + t_quantile(0.05, float(degrees))) * course.error[last])


def _last_bound(plan: Plan, degrees: int) -> float:
    """The last look's bound of Pass."""
    return t_bounds(plan.errors.passing, plan.windows.first_look, plan.windows.planned, degrees)[-1]


def _control(gate: Gate, course: Course, last: int) -> ControlReading | None:
    if gate.control is None:
        return None
    return ControlReading(
        metric=gate.control.span.metric,
        beta=gate.control.beta,
        drift=_number(course.drift[last]),
        limit=drift_limit(gate.margin),
        raw_estimate=_number(gate.sign * course.raw[last]),
    )


def _together(plan: Plan, gates: tuple[GateVerdict, ...], fault: Fault | None) -> Verdict:
    """Fail as soon as one gate fails; Pass once all have passed."""
    outcome = next(
        outcome
        for outcome in (Outcome.FAIL, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.PASS)
        if any(gate.outcome is outcome for gate in gates)
    )
    those = [gate for gate in gates if gate.outcome is outcome]
    ends = [gate.decided_at for gate in those if gate.decided_at is not None]
    decided_at = (max(ends) if outcome is Outcome.PASS else min(ends)) if ends else None
    first = min(those, key=lambda gate: gate.decided_at or plan.windows.planned + 1)
    detail = fault.detail if fault and first.decided_at is None else ""
    return Verdict(
        outcome=outcome,
        reason=first.reason,
        sentence=sentences.of_run(outcome, gates, first, detail),
        plan_digest=digest(plan),
        decided_at=decided_at,
        gates=gates,
    )


def _unjudged(plan: Plan, reason: Reason, detail: str) -> Verdict:
    """A verdict without a look at any gate."""
    outcome = outcome_of(reason)
    gates = tuple(
        GateVerdict(
            gate=gate.name,
            outcome=outcome,
            reason=reason,
            sentence=f"{gate.name}: {outcome} ({reason}). {detail[:1].upper()}{detail[1:]}.",
            kind=gate.kind,
            margin=gate.margin,
            planned=plan.windows.planned,
        )
        for gate in plan.gates
    )
    return Verdict(outcome, reason, sentences.of_run(outcome, gates, gates[0], detail), digest(plan), None, gates)
