"""A run: the steps of a canary, registered before anything moves.

Each step is a plan that lacks nothing but its start, which nobody can know before the step's slots serve. So what is
compared, against which margin, for how long and with which errors is fixed before the first sample, and the plan of a
step is a function of the run and of one number.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

from pydantic import Field

from specdecode_operator.gates.plan import MAX_TRAYS, Name, Plan, Strict, canonical_json

FORMAT: Final = 1
MAX_STEPS: Final = 8

OnInconclusive = Literal["Hold", "Abort", "Extend"]


class RunStep(Strict):
    """One step."""

    slots: int = Field(ge=1, le=MAX_TRAYS, description="Slots that the candidate holds.")
    plan: Plan = Field(description="What is judged; its windows start at 0, and are moved to where the step starts.")
    min_windows: int = Field(ge=0, description="Windows before the run may go on.")
    on_inconclusive: OnInconclusive = Field(default="Hold", description="What follows where nothing was decided.")

    def starting(self, start: float) -> Plan:
        """The step's plan, its first window at `start`."""
        return self.plan.model_copy(update={"windows": self.plan.windows.model_copy(update={"start": start})})


class RunPlan(Strict):
    """A registered run."""

    format: Literal[1] = Field(default=FORMAT, description="Version of this form.")
    id: Name = Field(description="The run's id.")
    registered: float = Field(ge=0, le=1e11, description="When it was registered; nothing had moved then.")
    asked: Name = Field(description="Digest of what the object asked for; with another, this run is over.")
    settle_windows: int = Field(ge=0, le=1000, description="Windows from when a step's slots serve to its start.")
    power: float = Field(gt=0, lt=1, description="Share of runs that decide where the candidate is no different.")
    trays: tuple[Name, ...] = Field(
        default=(), max_length=MAX_TRAYS, description="Nodes whose slots go to the candidate first, in this order."
    )
    detectable: dict[Name, float] = Field(
        default={}, max_length=16, description="Smallest effect that each gate's run can find, by gate."
    )
    steps: tuple[RunStep, ...] = Field(min_length=1, max_length=MAX_STEPS, description="Its steps, in their order.")

    @property
    def stable(self) -> str:
        """The revision that serves."""
        return self.steps[0].plan.stable.revision

    @property
    def candidate(self) -> str:
        """The revision that is to take over."""
        return self.steps[0].plan.candidate.revision


Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def text_of(run: RunPlan) -> str:
    """The run as it is written down: canonical JSON."""
    return canonical_json(run)


def digest_of(text: str) -> str:
    """What status holds of the text."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
