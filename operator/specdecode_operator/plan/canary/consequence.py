"""What follows from a step's verdict: one table, from what was found to what is done.

| found                                     | done                                            |
|-------------------------------------------|-------------------------------------------------|
| Fail                                      | slots back, the revision is rejected            |
| Invalid                                   | slots back, not rejected                        |
| Pass, and the step's least time has passed| the candidate takes all slots                   |
| nothing against it at an early step's end | the next step                                   |
| undecided at the end                      | as the step says: hold, or slots back           |
| no data                                   | hold the same slots; at the end as undecided    |
| anything else                             | measure on                                      |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from specdecode_operator.gates.run import RunStep
from specdecode_operator.gates.verdict import Reason
from specdecode_operator.plan.canary.record import Verdict

PATIENCE_WINDOWS: Final = 4
"""Windows beyond a step's end before what never came counts as missing: scrapes and looks lag a little."""

NOTHING_AGAINST: Final = frozenset({Reason.GUARDED.value, Reason.FEW_REQUESTS.value})
"""Why an early step may be over. Of few requests a guard can't tell a small harm, only a catastrophe; the step that
decides has more slots, and asks for as many requests itself."""

Do = Literal["Measure", "Next", "Promote", "Reject", "Return", "Hold"]


@dataclass(frozen=True)
class Consequence:
    """What to do, and why."""

    do: Do
    reason: str = ""
    words: str = ""


def consequence(step: RunStep, verdict: Verdict | None, *, through: int, elapsed: int) -> Consequence:
    """What follows.

    Args:
        step: the step as it was registered.
        verdict: of the last look; None before the first.
        through: windows that look has seen.
        elapsed: windows that have passed since the step's start, seen or not.
    """
    if verdict is not None and verdict.outcome == "Fail":
        return Consequence("Reject", verdict.reason, verdict.sentence)
    if verdict is not None and verdict.outcome == "Invalid":
        return Consequence("Return", verdict.reason, verdict.sentence)
    if verdict is not None and verdict.outcome == "Pass":
        done = elapsed >= step.min_windows
        return Consequence("Promote" if done else "Measure", verdict.reason, verdict.sentence)
    planned = step.plan.windows.planned
    seen, overdue = through >= planned, elapsed >= planned + PATIENCE_WINDOWS
    if verdict is not None and seen and step.plan.role == "guard" and verdict.reason in NOTHING_AGAINST:
        return Consequence("Next", verdict.reason, verdict.sentence)
    if not seen and not overdue:
        return Consequence("Measure")
    return _inconclusive(step, verdict, seen=seen)


def _inconclusive(step: RunStep, verdict: Verdict | None, *, seen: bool) -> Consequence:
    """At the planned end, without a decision. What is held goes on being looked at until the last window is seen."""
    do: Do = "Return" if step.on_inconclusive == "Abort" else "Hold"
    if verdict is not None and seen:
        return Consequence(do, verdict.reason, verdict.sentence)
    return Consequence(do, Reason.NO_DATA, "Inconclusive: the step's time is over, and its windows have not all come.")
