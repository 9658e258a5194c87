"""Samples: what one pod's series grew by in one window. One JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode_operator.api.errors import FieldError, InvalidObject

MAX_SAMPLES: Final = 2_000_000
MAX_LINE: Final = 16_384

Time = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
Label = Annotated[str, Field(max_length=253)]


class Sample(BaseModel):
    """The growth of one histogram or counter over one window, or the flag that says why it can't be known.

    `count` and `sum` may be NaN: a measurement can be broken without the file being so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_start: Time
    window_end: Time
    revision: Label
    pod_uid: Label
    """Empty for what a gateway counts: its series belong to an arm."""
    node: Label
    start_time: Time
    """When the process started that the series comes from."""
    metric: Label
    count: float
    sum: float
    batch: Label = ""
    step: Label = ""
    buckets: dict[Label, float] | None = Field(default=None, max_length=64)
    """Growth of each cumulative bucket, by its upper bound as text ("0.01", "+Inf")."""
    requests: float | None = None
    """Requests that the pod finished in the window."""
    manifest_digest: Label | None = None
    sample_every: int | None = None
    """Every how many steps one is sampled."""
    flags: tuple[Label, ...] = Field(default=(), max_length=16)
    """Why the window must not be used: reset, gap, stale, restart ...; `crashed` if the engine died of itself."""


def read_samples(lines: Iterable[str | bytes]) -> Iterator[Sample]:
    """Samples from JSON lines; empty lines are skipped.

    Raises:
        InvalidObject: a line is no sample, or there are too many.
    """
    for number, line in enumerate(lines, start=1):
        if number > MAX_SAMPLES:
            raise InvalidObject([_fault(number, "one line more", f"at most {MAX_SAMPLES} lines")])
        if len(line) > MAX_LINE:
            raise InvalidObject([_fault(number, f"{len(line)} characters", f"at most {MAX_LINE} a line")])
        if line.strip():
            yield _read(number, line)


def _read(number: int, line: str | bytes) -> Sample:
    try:
        return Sample.model_validate_json(line)
    except ValidationError as error:
        raise InvalidObject(
            _fault(number, repr(fault["input"])[:80], fault["msg"], ".".join(map(str, fault["loc"])))
            for fault in error.errors(include_url=False, include_context=False)
        ) from None


def _fault(number: int, found: str, allowed: str, field: str = "") -> FieldError:
    return FieldError(
        path=f"samples line {number}{field and '.' + field}",
        found=found,
        allowed=allowed,
        action="give one JSON object a line, as `kubectl-specdecode judge --help` describes them",
    )
