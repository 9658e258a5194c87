"""What the judge says: frozen results, reasons, and sentences that a person can read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """The four answers."""

    PASS = "Pass"
    FAIL = "Fail"
    INCONCLUSIVE = "Inconclusive"
    INVALID = "Invalid"


class Reason(StrEnum):
    """Why. Each belongs to one outcome."""

    # Pass
    WITHIN_MARGIN = "WithinMargin"
    BETTER = "BetterByMargin"
    # Fail
    BEYOND_MARGIN = "BeyondMargin"
    BUCKET_BEYOND_MARGIN = "BucketBeyondMargin"
    CATASTROPHE = "Catastrophe"
    CANDIDATE_CRASHED = "CandidateCrashed"
    # Inconclusive
    MEASURING = "Measuring"
    UNDECIDED = "Undecided"
    NEUTRAL = "Neutral"
    GUARDED = "Guarded"
    DRIFT = "EnvironmentDrift"
    NOT_SETTLED = "NotSettled"
    BUCKET_DOUBTFUL = "BucketDoubtful"
    BASELINE_APART = "BaselineApart"
    FEW_PODS = "TooFewPods"
    FEW_REQUESTS = "TooFewRequests"
    NO_DATA = "NoData"
    ARM_SILENT = "ArmSilent"
    # Invalid
    PLAN_VERSION = "PlanVersion"
    UNDERPOWERED = "Underpowered"
    NO_CONTROL = "NoControl"
    UNBALANCED_LOAD = "UnbalancedLoad"
    ASYMMETRIC_LOSS = "AsymmetricLoss"
    TRAFFIC_SHARE = "TrafficShare"
    PROMPTS_DIFFER = "PromptsDiffer"
    LOST_STEPS = "LostSteps"
    NO_SPREAD = "NoSpread"
    DUPLICATE_SERIES = "DuplicateSeries"
    FOREIGN_SERIES = "ForeignSeries"
    MANIFEST_MISMATCH = "ManifestMismatch"
    SAMPLING_DIFFERS = "SamplingDiffers"
    CANDIDATE_RESTARTED = "CandidateRestarted"
    FUTURE_SAMPLES = "FutureSamples"
    CLOCK_JUMP = "ClockJump"
    OUTSIDE_PLAN = "OutsidePlan"


@dataclass(frozen=True)
class Arms:
    """A number for each arm."""

    stable: float
    candidate: float


@dataclass(frozen=True)
class ControlReading:
    """What the control said."""

    metric: str
    beta: int
    drift: float | None
    """q: the arms' control difference since before the swap."""
    limit: float
    """mc: |q| from which it is drift."""
    raw_estimate: float | None
    """The estimate without subtracting the control and without exclusions."""


@dataclass(frozen=True)
class Look:
    """One look: the interval as it stood."""

    window: int
    """Windows elapsed."""
    estimate: float | None
    lower: float | None
    upper: float | None
    drift: float | None


@dataclass(frozen=True)
class GateVerdict:
    """What one gate says."""

    gate: str
    outcome: Outcome
    reason: Reason
    sentence: str
    kind: str
    margin: float
    estimate: float | None = None
    """Candidate minus stable, as a natural logarithm."""
    interval: tuple[float, float] | None = None
    """Lower bound at Fail's error, upper bound at Pass's, both valid at any look."""
    decided_at: int | None = None
    """Windows elapsed at the first crossing."""
    windows: int = 0
    """Windows elapsed of those planned."""
    planned: int = 0
    spent: Mapping[str, Arms] = field(default_factory=dict)
    """Windows of pods that could not be used, by reason."""
    kept: Arms = Arms(0, 0)
    """Windows of pods that were used."""
    pods: Arms = Arms(0, 0)
    """Pods that count."""
    requests: Arms = Arms(0, 0)
    smallest_detectable: float | None = None
    """The effect beyond which 95 of 100 such runs would decide by their end."""
    control: ControlReading | None = None
    looks: tuple[Look, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What the run says: Pass if every gate passes, Fail as soon as one fails."""

    outcome: Outcome
    reason: Reason
    sentence: str
    plan_digest: str
    decided_at: int | None
    gates: tuple[GateVerdict, ...]


def percent(value: float | None) -> str:
    """100 x ln, as the contract writes effects."""
    return "unknown" if value is None or not math.isfinite(value) else f"{100 * value:+.2f}%"


def as_json(value: Any) -> Any:
    """Results as JSON: enums as text, what isn't finite as null."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {_camel(name): as_json(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
