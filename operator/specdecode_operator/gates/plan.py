"""What is registered before the first sample. A verdict is a function of this and of the samples, of nothing else.

Units: times in seconds since the epoch, spans in windows, effects in natural logarithms (0.02 is 2%).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.gates.rules import FEWEST_REQUESTS, GATES_VERSION, GUARD_ALPHA

Kind = Literal["nonInferior", "superior", "equivalent"]
Role = Literal["decide", "guard"]
Statistic = Literal["mean", "p50", "p99"]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Effect = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Variance = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Score = Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)]

MAX_WINDOWS: Final = 720
"""Six hours of half-minute windows; a longer run takes longer ones."""

MAX_TRAYS: Final = 1024


class Strict(BaseModel):
    """Base of the models here. A field that nobody knows is an error: a misspelt rule must not pass for a set one."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )


class Arm(Strict):
    """One revision and how many pods it serves with."""

    revision: Name = Field(description="Revision whose pods these are.")
    pods: int = Field(ge=1, le=MAX_TRAYS, description="Pods of the arm while it is measured.")
    manifest_digest: str | None = Field(
        default=None, max_length=128, description="Digest that its engines must attest."
    )
    image: str | None = Field(default=None, max_length=1024, description="Image, by digest; for the record.")


class Baseline(Strict):
    """What one tray showed before the swap, relative to the trays that stay stable."""

    mean: Score = Field(
        default=0.0, description="Mean score of the gate's span, less beta times the control's; used by tracking."
    )
    control_mean: Score = Field(default=0.0, description="Mean score of the control.")
    control_median: Score = Field(default=0.0, description="Median score of the control.")
    control_mad: float = Field(
        default=0.0, ge=0, le=10, description="Median absolute deviation of the control's score."
    )


class Tray(Strict):
    """A node that pods of the run may be on."""

    node: Name = Field(description="Name of the node.")
    arm: Literal["stable", "candidate"] | None = Field(
        default=None, description="The only arm whose pods may be on it; absent: either."
    )
    baseline: dict[Name, Baseline] = Field(default={}, max_length=16, description="Baselines by name of the gate.")


class Span(Strict):
    """A histogram, and the part of it that is compared."""

    metric: Name = Field(description="Name of the metric, as in the samples.")
    step: str = Field(
        default="decode", max_length=32, description="Label `step` of its series; empty for a metric without."
    )
    statistic: Statistic = Field(default="mean", description="What is taken of each cell.")
    strata: dict[Annotated[str, Field(max_length=32)], Share] = Field(
        default={"": 1.0}, min_length=1, max_length=16, description="Weight of each batch bucket."
    )
    min_count: int = Field(default=100, ge=1, le=10**9, description="Observations that a cell needs.")


class Control(Strict):
    """The span that the change cannot touch."""

    span: Span = Field(description="What is read.")
    beta: Literal[0, 1] = Field(default=0, description="Whether it is subtracted; fixed by the history.")


class Noise(Strict):
    """What the stable pods' history says."""

    between: Variance = Field(description="Variance between pod means that time doesn't remove.")
    long_run: Variance = Field(description="Long-run variance of one pod's windows: over T of them, longRun / T.")
    starts: int = Field(ge=0, le=10**6, description="Pod starts that `between` comes from.")
    window_sd: float = Field(ge=0, le=10, description="Robust standard deviation of one pod's window.")


class Tracking(Strict):
    """A tray's own baseline, subtracted in part."""

    weight: float = Field(gt=0, le=1, description="Part of the tray's mean before the swap that is subtracted.")
    start_spread: float = Field(ge=0, le=1, description="Standard deviation of a pod's mean from start to start.")
    starts: int = Field(ge=0, le=10**6, description="Restarts that startSpread comes from.")


class Gate(Strict):
    """One question that the run answers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    measure: Literal["span", "acceptance"] = Field(default="span", description="A time, or the acceptance length.")
    span: Span = Field(description="What is compared.")
    kind: Kind = Field(default="nonInferior", description="What passing means.")
    margin: Effect = Field(description="Largest harm that may pass, as a natural logarithm.")
    worse: Literal["higher", "lower"] = Field(default="higher", description="The direction that is harm.")
    control: Control | None = Field(default=None, description="Absent: no claim about drift can be made.")
    tracking: Tracking | None = Field(default=None, description="Absent: trays' own baselines aren't used.")
    noise: Noise = Field(description="Calibrated on the stable arm's history.")
    requests: int = Field(default=0, ge=0, le=10**9, description="Finished requests that the candidate arm needs.")

    @property
    def sign(self) -> int:
        """+1 if a higher value is harm, else -1."""
        return 1 if self.worse == "higher" else -1


class Fresh(Strict):
    """Stable pods that were restarted for the run: what a short uptime costs, they pay as the candidate does."""

    since: float = Field(
        ge=0,
        le=1e11,
        description="Stable pods whose process started later are compared; the others only tell how much pods differ.",
    )
    pods: int = Field(ge=1, le=MAX_TRAYS, description="How many there are while it is measured.")


class Windows(Strict):
    """When is measured. The planned length holds any extension: a longer run than planned isn't judged."""

    start: float = Field(ge=0, le=1e11, description="Start of the first window, after the settle time.")
    seconds: float = Field(gt=0, le=3600, description="Length of a window.")
    planned: int = Field(ge=1, le=MAX_WINDOWS, description="Windows of the run, extensions included.")
    first_look: int = Field(default=10, ge=2, le=MAX_WINDOWS, description="Windows before the first look.")


class Errors(Strict):
    """One-sided errors of the step over all its gates. Pass needs every gate, so its error isn't divided."""

    passing: float = Field(
        default=0.01, alias="pass", validation_alias="pass", gt=0, le=0.2, description="Of a wrong Pass."
    )
    fail: float = Field(default=0.01, gt=0, le=0.2, description="Of a wrong Fail.")


def step_errors(passing: float, fail: float, *, role: Role, guards: int) -> Errors:
    """Errors of one step of a run with `guards` early steps, which only guard.

    They share a fifth of Fail's error; the step that decides has the rest, and all of Pass's.
    """
    part = GUARD_ALPHA / guards if role == "guard" else 1 - GUARD_ALPHA * (guards > 0)
    return Errors(**{"pass": passing, "fail": fail * part})


class Traffic(Strict):
    """What says that both arms serve the same requests. An absent metric isn't checked; a named one must be there."""

    min_requests: int = Field(
        default=FEWEST_REQUESTS, ge=0, le=10**9, description="Finished requests that the candidate arm needs."
    )
    candidate_weight: float | None = Field(
        default=None, gt=0, lt=1, description="The route's share of requests; absent: pods."
    )
    prompt_tokens: Name | None = Field(default=None, description="Histogram of prompt lengths.")
    prefix_queries: Name | None = Field(default=None, description="Prompt tokens looked up in the prefix cache.")
    prefix_hits: Name | None = Field(default=None, description="Prompt tokens found there.")
    gateway_requests: Name | None = Field(default=None, description="Requests that the gateway sent, by revision.")
    dropped: Name | None = Field(default=None, description="Samples that the telemetry dropped.")


class Plan(Strict):
    """A registered run."""

    gates_version: int = Field(description="Version of the method.")
    name: Name = Field(description="Namespace and name of the object.")
    run: Name = Field(description="The run's id.")
    seed: int = Field(default=0, ge=0, le=2**63 - 1, description="For choices by lot; for the record.")
    role: Role = Field(default="decide", description="guard: an early step, that can only stop.")
    stable: Arm = Field(description="What serves.")
    candidate: Arm = Field(description="What is to take over.")
    fresh: Fresh | None = Field(default=None, description="Absent: the candidate is compared with all stable pods.")
    trays: tuple[Tray, ...] = Field(min_length=1, max_length=MAX_TRAYS, description="Where the pods may be.")
    unseen_trays: bool = Field(
        default=False,
        description="Whether candidate pods, and restarted ones, may be on other nodes: without a history there, their "
        "control is held against the fleet's as it is.",
    )
    windows: Windows = Field(description="When is measured.")
    errors: Errors = Field(default=Errors(), description="Error probabilities.")
    traffic: Traffic = Field(default=Traffic(), description="What is asked of the traffic.")
    touched: tuple[Name, ...] = Field(default=(), max_length=64, description="Metrics that the change can touch.")
    gates: tuple[Gate, ...] = Field(min_length=1, max_length=16, description="What is judged.")

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        for what, found in (("gates", [gate.name for gate in self.gates]), ("trays", [t.node for t in self.trays])):
            twice = sorted({name for name in found if found.count(name) > 1})
            if twice:
                raise ValueError(f"{what}: each may be named once, found twice: {', '.join(twice)}")
        if self.stable.revision == self.candidate.revision:
            raise ValueError("candidate.revision: another revision than stable's is wanted")
        if self.windows.first_look > self.windows.planned:
            raise ValueError("windows.firstLook: at most windows.planned is allowed")
        if self.fresh is not None and self.fresh.pods > self.stable.pods:
            raise ValueError("fresh.pods: at most stable.pods is allowed")
        if self.fresh is not None and any(gate.tracking for gate in self.gates):
            raise ValueError("fresh: a tray's own baseline is of another start, so tracking isn't allowed with it")
        return self

    @property
    def compared(self) -> int:
        """Stable pods that the candidate is compared with."""
        return self.fresh.pods if self.fresh is not None else self.stable.pods

    @property
    def spread_pods(self) -> int:
        """Stable pods less one where some were restarted: those have a mean of their own, which costs a degree."""
        return self.stable.pods - (self.fresh is not None and self.fresh.pods < self.stable.pods)

    @property
    def fail_error(self) -> float:
        """Error probability of one gate's Fail: that of the plan over the gates (Bonferroni)."""
        return self.errors.fail / len(self.gates)


def read_plan(text: str | bytes) -> Plan:
    """A plan from JSON.

    Raises:
        InvalidObject: it is no JSON, or not a plan; with each field at fault.
    """
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        raise InvalidObject(_faults(error)) from None


def _faults(error: ValidationError) -> Iterator[FieldError]:
    for fault in error.errors(include_url=False, include_context=False):
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
        yield FieldError(
            path=f"plan{path}",
            found=_shown(fault["input"]),
            allowed=fault["msg"],
            action="correct it, or have the plan written anew by the operator of gates version "
            f"{GATES_VERSION} (kubectl-specdecode judge --schema prints what a plan may hold)",
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def digest(plan: Plan) -> str:
    """sha256 of the plan's canonical JSON: keys sorted, no spaces, defaults written out."""
    return "sha256:" + hashlib.sha256(canonical_json(plan).encode()).hexdigest()


def canonical_json(model: Strict) -> str:
    """JSON with sorted keys, without spaces, defaults written out."""
    data: Mapping[str, Any] = model.model_dump(mode="json", by_alias=True)
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def schema() -> dict[str, Any]:
    """The plan's JSON schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Plan.model_json_schema(by_alias=True, mode="validation"),
    }
