"""A run as it is written down: where it stands, what each step has seen, how it ended."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal

from pydantic import Field, ValidationError

from specdecode_operator.gates.plan import Name, Strict, canonical_json

Outcome = Literal["Pass", "Fail", "Inconclusive", "Invalid", "Promoted", "Aborted", "Cancelled"]
PROMOTING: Final = frozenset({"Pass", "Promoted"})
"""Outcomes after which the candidate takes all slots."""

WORDS: Final = 2048


class Ended(Strict):
    """How a run ended."""

    outcome: Outcome = Field(description="What it came to.")
    reason: Name = Field(description="Why, in one word.")
    message: str = Field(max_length=WORDS, description="Why, in sentences.")
    at: datetime = Field(description="When.")


class Verdict(Strict):
    """What the last look of a step said."""

    outcome: Literal["Pass", "Fail", "Inconclusive", "Invalid"] = Field(description="The judge's answer.")
    reason: Name = Field(description="Why, in one word.")
    sentence: str = Field(max_length=WORDS, description="Why, in sentences.")
    decided_at: int | None = Field(default=None, description="Windows at the first crossing.")


class StepRecord(Strict):
    """One step, from when its slots served."""

    start: float = Field(description="Start of its first window, in seconds since the epoch.")
    cohort: tuple[Name, ...] = Field(max_length=2048, description="UIDs of the stable pods that are compared.")
    through: int = Field(default=0, ge=0, description="Windows whose samples are recorded.")
    verdict: Verdict | None = Field(default=None, description="What the look at them said.")


class Record(Strict):
    """A run."""

    format: Literal[1] = Field(default=1, description="Version of this form.")
    id: Name = Field(description="The run's id.")
    stable: Name = Field(description="Revision that serves.")
    candidate: Name = Field(description="Revision that is to take over.")
    plan: Name = Field(description="Digest of the registered plan.")
    registered: datetime = Field(description="When it was registered.")
    since: datetime = Field(description="When its present step began.")
    before: tuple[Name, ...] = Field(
        default=(),
        max_length=2048,
        description="UIDs of the stable pods that served then, where some are restarted for the run; others are young.",
    )
    steps: tuple[StepRecord | None, ...] = Field(
        default=(None,), max_length=8, description="Its steps so far; null for one whose slots don't all serve yet."
    )
    paused: bool = Field(default=False, description="Whether somebody has asked for a pause.")
    request: Name | None = Field(default=None, description="Id of the last request that was applied to it.")
    ended: Ended | None = Field(default=None, description="Absent while it goes on.")

    @property
    def step(self) -> int:
        """Index of the present step."""
        return len(self.steps) - 1

    @property
    def now(self) -> StepRecord | None:
        """The present step's record."""
        return self.steps[-1]

    def with_step(self, step: StepRecord | None) -> Record:
        """With another record of the present step."""
        return self.model_copy(update={"steps": (*self.steps[:-1], step)})

    def next_step(self, now: datetime) -> Record:
        """With the next step begun."""
        return self.model_copy(update={"steps": (*self.steps, None), "since": now})

    def end(self, outcome: Outcome, reason: str, message: str, now: datetime) -> Record:
        """Ended."""
        return self.model_copy(update={"ended": Ended(outcome=outcome, reason=reason, message=message[:WORDS], at=now)})


def text_of(record: Record) -> str:
    """The record as it is written down."""
    return canonical_json(record)


def read(text: str) -> Record | None:
    """A record from its text; None if it is none that this operator can read."""
    try:
        return Record.model_validate_json(text)
    except ValidationError:
        return None
