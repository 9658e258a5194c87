"""What follows from a step's verdict: each row of the table, without a fleet."""

from __future__ import annotations

import pytest
from canaries import registered, registering

from specdecode_operator.gates.run import RunStep
from specdecode_operator.gates.verdict import Reason
from specdecode_operator.plan.canary.consequence import PATIENCE_WINDOWS, consequence
from specdecode_operator.plan.canary.record import Verdict

DECIDE = registered(registering().asked, ["node-1"]).steps[0]
GUARD = DECIDE.model_copy(update={"plan": DECIDE.plan.model_copy(update={"role": "guard"})})
ABORT = DECIDE.model_copy(update={"on_inconclusive": "Abort"})
PLANNED = DECIDE.plan.windows.planned
LEAST = DECIDE.min_windows


def said(outcome: str, reason: Reason = Reason.MEASURING) -> Verdict:
    return Verdict.model_validate({"outcome": outcome, "reason": reason.value, "sentence": "Said."})


@pytest.mark.parametrize(
    ("step", "verdict", "through", "elapsed", "do"),
    [
        (DECIDE, None, 0, 0, "Measure"),
        (DECIDE, said("Inconclusive"), 1, 1, "Measure"),
        (DECIDE, said("Fail", Reason.CATASTROPHE), 3, 3, "Reject"),
        (GUARD, said("Fail", Reason.BEYOND_MARGIN), 12, 12, "Reject"),
        (DECIDE, said("Invalid", Reason.FOREIGN_SERIES), 3, 3, "Return"),
        (DECIDE, said("Pass", Reason.WITHIN_MARGIN), LEAST - 1, LEAST - 1, "Measure"),
        (DECIDE, said("Pass", Reason.WITHIN_MARGIN), LEAST - 1, LEAST, "Promote"),
        (GUARD, said("Inconclusive", Reason.GUARDED), PLANNED, PLANNED, "Next"),
        (GUARD, said("Inconclusive", Reason.FEW_REQUESTS), PLANNED, PLANNED, "Next"),
        (GUARD, said("Inconclusive", Reason.ARM_SILENT), PLANNED, PLANNED, "Hold"),
        (GUARD, said("Inconclusive", Reason.DRIFT), PLANNED, PLANNED, "Hold"),
        (DECIDE, said("Inconclusive", Reason.FEW_REQUESTS), PLANNED, PLANNED, "Hold"),
        (DECIDE, said("Inconclusive", Reason.UNDECIDED), PLANNED, PLANNED, "Hold"),
        (ABORT, said("Inconclusive", Reason.UNDECIDED), PLANNED, PLANNED, "Return"),
        (DECIDE, None, 0, PLANNED, "Measure"),
        (DECIDE, None, 0, PLANNED + PATIENCE_WINDOWS, "Hold"),
        (ABORT, None, 0, PLANNED + PATIENCE_WINDOWS, "Return"),
    ],
)
def test_what_follows(step: RunStep, verdict: Verdict | None, through: int, elapsed: int, do: str) -> None:
    assert consequence(step, verdict, through=through, elapsed=elapsed).do == do


@pytest.mark.parametrize("reason", [each for each in Reason if each not in (Reason.GUARDED, Reason.FEW_REQUESTS)])
def test_no_other_reason_takes_an_undecided_early_step_further(reason: Reason) -> None:
    found = consequence(GUARD, said("Inconclusive", reason), through=PLANNED, elapsed=PLANNED)
    assert found.do == "Hold"


@pytest.mark.parametrize("outcome", ["Fail", "Inconclusive", "Invalid"])
@pytest.mark.parametrize("reason", list(Reason))
def test_nothing_but_a_pass_promotes(outcome: str, reason: Reason) -> None:
    for step in (DECIDE, GUARD, ABORT):
        for windows in (0, PLANNED, 2 * PLANNED):
            assert consequence(step, said(outcome, reason), through=windows, elapsed=windows).do != "Promote"
