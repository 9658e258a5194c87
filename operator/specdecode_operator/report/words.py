"""What the report says, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from specdecode_operator.gates.plan import Gate
from specdecode_operator.gates.sentences import MEANING
from specdecode_operator.gates.verdict import GateVerdict, Outcome, Reason, percent
from specdecode_operator.report.case import Case, Json, Step

MEASURES: Final[Mapping[str, str]] = {
    "specdecode_propose_host_seconds": "the host time of a proposal",
    "specdecode_drafter_gpu_seconds": "the drafter's span on the device",
    "specdecode_acceptance_length": "the acceptance length",
}


@dataclass(frozen=True)
class Loss:
    """Why windows of pods weren't used."""

    mark: str
    """How it is drawn."""
    meaning: str


LOSSES: Final[Mapping[str, Loss]] = {
    "control": Loss("by-control", "The control was too far from what this tray's was before the swap, or missing: the "
                    "machine, not the revision, was slow. The measured span isn't looked at for that."),
    "thin": Loss("thin", "Too few steps in the window, in the span or in its control, for a mean that says anything."),
    "missing": Loss("missing", "No sample at all of this pod in the window."),
    "reset": Loss("flagged", "A counter fell: its process or its series began anew in the window."),
    "restart": Loss("flagged", "The process is another than in the window before."),
    "gap": Loss("flagged", "Fewer scrapes than a window needs, or too far apart."),
    "stale": Loss("flagged", "The last scrape is too old for the window's end."),
    "notFinite": Loss("flagged", "A number was NaN or infinite."),
    "outOfRange": Loss("flagged", "A number was beyond what any measurement is."),
    "crashed": Loss("flagged", "The engine ended of itself in the window."),
    "": Loss("flagged", "The samples are flagged so."),
}  # fmt: skip
"""By reason; of any other flag, the last."""

ASKS: Final[Mapping[str, str]] = {
    "Pass": "Nothing. The candidate takes all slots by itself, and is what the next revision is compared with.",
    "Fail": "Look at the revision: at the gate named above, and at what changed between the two. It is rejected and "
    "isn't tried again until somebody asks to retry.",
    "Inconclusive": "A decision, or more evidence: more slots, a longer run, or what the reason names. What was seen "
    "speaks neither for the candidate nor against it.",
    "Invalid": "Repair what the reason names, then ask to retry. Nothing can be concluded, in either direction; the "
    "revision isn't rejected.",
    "Promoted": "A person decided. What the gates had said until then is below; it doesn't prove the candidate.",
    "Aborted": "Find out what stopped it, then ask to retry, or change the spec. The revision isn't rejected.",
    "Cancelled": "Nothing: the object asks for something else now.",
    "Going on": "Patience. Looks before the planned end cost no wrong decision, and none of yours is needed.",
}
"""What each outcome asks of the reader."""


AFTER: Final[Mapping[str, str]] = {
    **dict.fromkeys(("Pass", "Promoted"), "After that the candidate takes all slots."),
    **dict.fromkeys(("Fail", "Inconclusive", "Invalid", "Aborted", "Cancelled"), "After that its slots go back."),
}
"""What becomes of the slots; the record ends before."""


@dataclass(frozen=True)
class LookMark:
    """One look on the timeline."""

    at: float
    outcome: str

    @property
    def height(self) -> float:
        """Looks that decided are drawn longer."""
        return 6.0 if self.outcome == "Inconclusive" else 12.0


@dataclass(frozen=True)
class Span:
    """One phase on the timeline. Times in seconds since the epoch."""

    phase: str
    start: float
    end: float
    before: int
    """Slots of the candidate at its start."""
    after: int
    words: str
    looks: tuple[LookMark, ...] = ()


def utc(seconds: float) -> str:
    """A time of day with its date."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def measure(gate: Gate) -> str:
    """What a gate measures."""
    name = MEASURES.get(gate.span.metric, gate.span.metric)
    return name if gate.span.statistic == "mean" else f"the {gate.span.statistic} of {name}"


def question(gate: Gate) -> str:
    """A gate as the question that it answers."""
    margin, word = f"{100 * gate.margin:g}%", ("longer" if gate.worse == "higher" else "shorter")
    if gate.kind == "superior":
        return f"Is {measure(gate)} better than stable's by {margin} at least?"
    if gate.kind == "equivalent":
        return f"Is {measure(gate)} the same as stable's, within {margin} either way?"
    return f"Is {measure(gate)} at most {margin} {word} than stable's?"


def outcome(case: Case) -> str:
    """How the run ended, in one word or two."""
    return case.record.ended.outcome if case.record.ended else "Going on"


def headline(case: Case) -> str:
    """The verdict in a sentence."""
    record, ended = case.record, case.record.ended
    candidate, stable = f"Revision {record.candidate}", f"revision {record.stable}"
    if ended is None:
        return _going_on(case)
    if ended.outcome == "Pass":
        return f"{candidate} passed: {_passed(case)}. It takes all slots from {stable}."
    if ended.outcome == "Fail":
        return f"{candidate} failed: {_because(case, ended.reason)}. Its slots went back to {stable}."
    if ended.outcome == "Promoted":
        return f"{candidate} was promoted by a person, not by evidence, and takes all slots from {stable}."
    if ended.outcome == "Cancelled":
        return f"The run of {candidate.lower()} was cancelled: the object asks for another revision."
    if ended.outcome == "Aborted":
        why = "by a person" if ended.reason == "ByRequest" else f"({ended.reason})"
        return f"The run of {candidate.lower()} was stopped {why}. Its slots went back to {stable}."
    if ended.outcome == "Inconclusive":
        return f"{candidate} was neither proven nor refuted: {_meaning(ended.reason)}. Its slots went back to {stable}."
    return f"The run of {candidate.lower()} shows nothing, in either direction: {_meaning(ended.reason)}."


def _going_on(case: Case) -> str:
    record, plan = case.record, case.run.plan
    arms = f"revision {record.candidate} against revision {record.stable}"
    if plan is None:
        return f"Nothing is decided: {arms}, and the registered plan is gone."
    through, planned = record.now.through if record.now else 0, plan.steps[record.step].plan.windows.planned
    if through >= planned:
        return f"All {planned} windows are seen and nothing is decided: {arms}. A person has to."
    where = f"step {case.last.number} of {len(plan.steps)}, {through} of {planned} windows"
    return f"Nothing is decided yet: {arms}, {where}."


def _meaning(reason: str) -> str:
    """What a reason means, without what it advises."""
    known = {each.value: words for each, words in MEANING.items()}
    return known.get(reason, reason).partition(";")[0]


def _gates(case: Case) -> tuple[GateVerdict, ...]:
    return case.last.judged.verdict.gates if case.last.judged else ()


def _passed(case: Case) -> str:
    names = [gate.gate for gate in _gates(case)]
    if not names:
        return "as its record says"
    better = all(gate.reason is Reason.BETTER for gate in _gates(case))
    what = "it is better by the margin" if better else "it is no worse than the margin allows"
    many = {1: "on its gate", 2: "on both gates"}.get(len(names), f"on all {len(names)} gates")
    return f"{what} {many}, {_listed(names)}"


def _because(case: Case, reason: str) -> str:
    failed = next((gate for gate in _gates(case) if gate.outcome is Outcome.FAIL), None)
    if failed is None or failed.estimate is None:
        return _meaning(reason)
    between = f" ({percent(failed.interval[0])} to {percent(failed.interval[1])})" if failed.interval else ""
    return (
        f"on gate {failed.gate} {_meaning(reason)}, {percent(failed.estimate)}{between} against a margin of "
        f"{100 * failed.margin:g}%"
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# --- The timeline -----------------------------------------------------------------------------------------------------


def spans(case: Case) -> tuple[Span, ...]:
    """The phases of the run, as far as its record tells them apart."""
    plan = case.run.plan
    if plan is None:
        return ()
    found: list[Span] = []
    begin, slots = plan.registered, 0
    for step in case.steps:
        found += _of_step(case, step, begin, slots)
        begin, slots = found[-1].end, plan.steps[step.number - 1].slots
    return tuple(span for span in found if span.end > span.start)


def _of_step(case: Case, step: Step, begin: float, before: int) -> Iterator[Span]:
    here, plan, record = step.registered, case.run.plan, step.record
    assert here is not None
    assert plan is not None
    over = case.record.ended.at.timestamp() if case.record.ended else None
    name = f"step {step.number}"
    if record is None:
        end = max(over or begin, begin)
        yield Span("Swapping", begin, end, before, here.slots, f"{name}: slots move to the candidate")
        return
    window = here.plan.windows.seconds
    served = max(record.start - plan.settle_windows * window, begin)
    yield Span("Swapping", begin, served, before, here.slots, f"{name}: slots move to the candidate")
    yield Span("Settling", served, record.start, here.slots, here.slots, f"{name}: caches fill, clocks settle")
    seen = record.start + record.through * window
    marks = tuple(LookMark(record.start + _window(look) * window, str(look.get("outcome"))) for look in step.looks)
    words = f"{name}: {record.through} of {here.plan.windows.planned} windows"
    yield Span("Measuring", record.start, seen, here.slots, here.slots, words, marks)
    if step is case.last and over is not None:
        yield Span("Judging", seen, over, here.slots, here.slots, f"{name}: until the run ended")


def _window(look: Json) -> float:
    found = look.get("window")
    return float(found) if isinstance(found, int) and 0 <= found <= 10**6 else 0.0
