"""How a revision is proven before it takes over (`spec.gates`, `spec.rollout`)."""

import math
import re
from typing import Annotated, Final, Literal

from pydantic import Field

from specdecode_operator.api.cel import Rule
from specdecode_operator.api.fields import Duration, LabelName, Model, as_set, atomic, ruled, spelled

Percent = Annotated[
    str,
    Field(
        min_length=2,
        max_length=8,
        json_schema_extra=spelled(
            r"^(0\.[0-9]{0,2}[1-9]|[1-9][0-9]?(\.[0-9]{1,3})?)%$",
            "a percentage above 0% and below 100%, as in 2% or 0.5%",
        ),
    ),
]
Slots = Annotated[
    Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=2, max_length=4)],
    Field(
        json_schema_extra=ruled(
            Rule(
                rule="type(self) == int || self.matches('^[1-9][0-9]?%$')",
                found="a text that is no percentage",
                allowed="a number from 1, or a percentage from 1% to 99%",
                action="correct it",
            )
        )
    ),
]
GateMetric = Literal["proposeHostTime", "drafterGpuSpan", "acceptanceLength"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Gate(Model):
    """One question that a canary answers."""

    name: LabelName = Field(description="Name of the gate, for steps and verdicts.")
    metric: GateMetric = Field(
        description="What is compared: proposeHostTime (host time of one propose call), drafterGpuSpan (the drafter's "
        "span on the device) or acceptanceLength (tokens emitted a draft)."
    )
    statistic: Literal["mean", "p50", "p99"] = Field(
        default="mean",
        description="What is taken of each window. A p99 from buckets needs a margin of 10% and more; an acceptance "
        "length has its mean only.",
    )
    kind: Literal["nonInferior", "superior", "equivalent"] = Field(
        default="nonInferior",
        description="What passing means: no worse than the margin, better by the margin, or within it on both sides.",
    )
    margin: Percent = Field(description="Largest harm that may pass, as in 2%.")


class Step(Model):
    """One step of a canary: so many slots, measured for so long."""

    slots: Slots = Field(description="Slots that the candidate holds: a number, or a percentage of replicas.")
    gates: Annotated[tuple[LabelName, ...], Field(max_length=16)] = Field(
        default=(),
        description="Gates that may stop this step, by name. Absent: all. The last step takes all.",
        json_schema_extra=as_set(),
    )
    min_duration: Duration = Field(
        default="10m", description="Least time of measuring before the next step, or before the last one promotes."
    )
    max_duration: Duration = Field(
        default="40m", description="Time of measuring after which what is undecided is inconclusive."
    )
    on_inconclusive: Literal["Hold", "Abort", "Extend"] = Field(
        default="Hold",
        description="Then: Hold the slots until somebody decides, Abort and give them back, or Extend by as long again "
        "(planned in from the start) and hold after that.",
    )


class Rollout(Model):
    """How a revision takes over."""

    strategy: Literal["Replace", "Canary"] = Field(
        default="Replace",
        description="Replace: slot by slot, once each is Ready and attested. Canary: in steps, on the evidence of the "
        "gates.",
    )
    surge_slots: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Slots beyond replicas that a revision may hold while it takes over, if there are GPUs for them: "
        "its first ones, for which stable gives none up.",
    )
    steps: Annotated[tuple[Step, ...], Field(max_length=8)] = Field(
        default=(),
        description="Steps of a canary. Early ones can only stop it; the last one decides.",
        json_schema_extra=atomic(),
    )
    baseline: Literal["stable", "fresh"] = Field(
        default="stable",
        description="What a candidate is compared with. stable: all stable slots. fresh: stable slots that are "
        "restarted for it, one with each of its own, so that cold caches and a short uptime don't pass for a "
        "regression.",
    )
    alpha: Percent = Field(
        default="1%", description="One-sided error of a wrong Pass, and of a wrong Fail, over the whole run."
    )
    power: Percent = Field(
        default="95%",
        description="Share of runs that have to decide by their end where the candidate is no different; a plan that "
        "can't is not begun.",
    )
    paused: bool = Field(
        default=False, description="Begin no swap, no step and no promotion. What fails still gives its slots back."
    )

    @property
    def canary(self) -> bool:
        """Whether revisions have to be proven."""
        return self.strategy == "Canary"


def share(percent: str) -> float:
    """`2%` as 0.02."""
    return float(percent.removesuffix("%")) / 100


def seconds(duration: str) -> float:
    """`1h30m` as 5400."""
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+)(ms|h|m|s)", duration))


def slots_of(step: Step, replicas: int) -> int:
    """How many slots a step's `slots` are of so many replicas; a part of one counts as one."""
    if isinstance(step.slots, int):
        return step.slots
    return math.ceil(share(step.slots) * replicas - 1e-9)
