"""An operator that is killed anywhere goes on where it was: the run's record is the run."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from builders import IMAGE, OTHER_IMAGE
from canaries import CanaryFleet, canary, changed
from fleet import Crashed

from specdecode_operator.api import names


@dataclass
class Killed(CanaryFleet):
    """Every third reconcile is killed after so many writes, and a new operator has found nothing out yet."""

    after: int = 0
    reconciles: int = 0
    kills: int = 0

    def reconcile(self, *, writes: int | None = None) -> Any:
        self.reconciles += 1
        if self.after and self.reconciles % 3 == 0:
            with contextlib.suppress(Crashed):
                super().reconcile(writes=self.after)
                return super().reconcile(writes=writes)
            self.kills += 1
            self.evidence = None
        return super().reconcile(writes=writes)


@pytest.mark.parametrize("after", [1, 2])
@pytest.mark.parametrize(("sees", "slots"), [("Pass(WithinMargin)", 8), ("Fail(BeyondMargin)", 0)])
def test_killed_after_any_write_it_ends_as_if_undisturbed(after: int, sees: str, slots: int) -> None:
    fleet = Killed.of(canary())
    assert isinstance(fleet, Killed)
    fleet.settle()
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    fleet.after = after
    fleet.until("Measuring", "1/2")
    first = fleet.run["id"]
    fleet.until("Measuring", "2/2")
    fleet.sees = sees
    fleet.until("Promoting" if slots else "Ended")
    assert fleet.run["id"] == first
    fleet.rest()
    assert fleet.kills > 0
    assert fleet.slots() == slots
    assert len([key for key in fleet.children if key[0] == "ConfigMap"]) == 2
    verdicts = fleet.obj["status"]["verdicts"]
    assert [each["outcome"] for each in verdicts] == [sees.partition("(")[0]]


@pytest.mark.parametrize(("phase", "step"), [("Swapping", "1/2"), ("Measuring", "1/2"), ("Measuring", "2/2")])
def test_a_lost_status_is_told_anew_by_the_record(phase: str, step: str) -> None:
    fleet = changed()
    old = fleet.stable()
    fleet.until(phase, step)
    before, slots = fleet.run["id"], fleet.slots()
    fleet.lose_status()
    fleet.evidence = None
    fleet.turn()
    assert (fleet.run["id"], fleet.run["step"], fleet.stable()) == (before, step, old)
    assert fleet.slots() in (slots, 1, 2)
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    assert fleet.slots() == 0


def test_a_lost_status_forgets_no_rejection() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    fleet.lose_status()
    fleet.rest()
    assert fleet.slots() == 0
    assert fleet.progressing == ("False", names.REASON_REJECTED)
    assert fleet.obj["status"]["rejected"][-1]["reason"] == "BeyondMargin"


def test_a_lost_status_takes_nobody_for_stable_because_it_happens_to_be_ready() -> None:
    fleet = changed()
    old = fleet.stable()
    fleet.until("Measuring", "2/2")
    for pod in fleet.pods_of(old):
        fleet.set_ready(pod, False)
    fleet.edit(lambda it: it.image(IMAGE.replace("engine@", "engine-c@")))
    fleet.lose_status()
    fleet.reconcile()
    assert fleet.stable() == old


def test_at_rest_in_the_middle_of_a_window_nothing_is_written() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.turn(0)
    fleet.reconcile()
    made = fleet.planned()
    assert made.actions == ()
    assert made.status == fleet.parsed().status
    assert made.requeue_after is not None
