"""What a look writes down for readers beside its verdict: sums over each arm of what no gate may read.

No verdict rests on it, and pods aren't told apart, so it takes little room in a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.quantiles import added
from specdecode_operator.gates.samples import Sample

PARTS: Final[Mapping[str, str]] = {
    "specdecode_propose_gpu_seconds": "propose",
    "specdecode_target_forward_gpu_seconds": "target's forward",
}
"""What a decode step takes on the device, one after the other on one stream."""

LENGTHS: Final = "specdecode_acceptance_length"
TOLD: Final[Mapping[str, str]] = {**dict.fromkeys(PARTS, "decode"), LENGTHS: ""}
"""What is read for it, with the label `step` of its series."""

DIGITS: Final = 7


def only_told(plan: Plan, sample: Sample) -> bool:
    """Whether no gate reads it: it is no evidence, and would fill the record."""
    return sample.metric in TOLD and all(gate.span.metric != sample.metric for gate in plan.gates)


def rows(plan: Plan, samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """Growth of each metric by arm and batch bucket. Flagged samples count nowhere."""
    arms = {plan.stable.revision: "stable", plan.candidate.revision: "candidate"}
    found: dict[tuple[str, str, str], list[Sample]] = {}
    for sample in samples:
        arm = arms.get(sample.revision)
        if arm and TOLD.get(sample.metric) == sample.step and not sample.flags:
            found.setdefault((sample.metric, sample.batch, arm), []).append(sample)
    return [_row(*key, found[key]) for key in sorted(found)]


def _row(metric: str, batch: str, arm: str, samples: list[Sample]) -> dict[str, Any]:
    row = {
        "metric": metric,
        "batch": batch,
        "arm": arm,
        "count": _short(sum(sample.count for sample in samples)),
        "sum": _short(sum(sample.sum for sample in samples)),
    }
    buckets = added(sample.buckets or {} for sample in samples)
    return {**row, "buckets": {bound: _short(count) for bound, count in buckets.items()}} if buckets else row


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
