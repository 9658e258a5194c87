"""One look at a run that goes on: the windows recorded so far and those that are new, judged and packed again.

What is judged is what is packed: the record alone gives the same verdict at any time, whatever the metrics' backend
still has.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from specdecode_operator.gates import told
from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.samples import Sample, read_samples
from specdecode_operator.gates.verdict import Verdict, as_json

DIGITS = 10
"""Digits of a sum that are kept: a million times finer than any effect, and half the bytes."""


@dataclass(frozen=True)
class Looked:
    """The verdict, and all that it rests on."""

    verdict: Verdict
    samples: bytes
    looks: bytes


def look(
    plan: Plan, new: Iterable[Sample], *, through: int, cohort: frozenset[str], samples: bytes, looks: bytes
) -> Looked:
    """Judge the first `through` windows.

    Args:
        plan: the step's plan.
        new: samples of windows that aren't recorded yet.
        through: windows that have closed.
        cohort: UIDs of the stable pods that are compared; those that came later have no history.
        samples: the recorded ones, packed.
        looks: earlier looks, packed.
    """
    compared = [each for each in new if _compared(plan, each, cohort)]
    every = [*unpacked(samples), *(_kept(plan, each) for each in compared if not told.only_told(plan, each))]
    verdict = judge(plan, every, through=through)
    return Looked(verdict, packed(every), _with_line(looks, _line(verdict, through, told.rows(plan, compared))))


def packed(samples: Iterable[Sample]) -> bytes:
    """Samples as JSON lines, compressed; the same samples give the same bytes."""
    lines = (each.model_dump_json(exclude_defaults=True) for each in samples)
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


def unpacked(data: bytes) -> Iterator[Sample]:
    """The samples of `packed`; of nothing, none."""
    return read_samples(gzip.decompress(data).splitlines() if data else ())


def _compared(plan: Plan, sample: Sample, cohort: frozenset[str]) -> bool:
    return sample.revision != plan.stable.revision or not sample.pod_uid or sample.pod_uid in cohort


def _kept(plan: Plan, sample: Sample) -> Sample:
    """Without what no gate reads."""
    quantiles = {gate.span.metric for gate in plan.gates if gate.span.statistic != "mean"}
    changes = {"sum": float(f"{sample.sum:.{DIGITS - 1}e}")}
    return sample.model_copy(update=changes if sample.metric in quantiles else {**changes, "buckets": None})


def _with_line(looks: bytes, line: str) -> bytes:
    before = gzip.decompress(looks) if looks else b""
    return gzip.compress(before + line.encode() + b"\n", mtime=0)


def _line(verdict: Verdict, through: int, beside: list[dict[str, Any]]) -> str:
    gates = [
        {
            "gate": gate.gate,
            "outcome": gate.outcome,
            "reason": gate.reason,
            "estimate": gate.estimate,
            "interval": gate.interval,
            "margin": gate.margin,
            "drift": gate.control.drift if gate.control else None,
            "pods": gate.pods,
        }
        for gate in verdict.gates
    ]
    said = {"window": through, "outcome": verdict.outcome, "reason": verdict.reason, "gates": gates, "told": beside}
    return json.dumps(as_json(said), separators=(",", ":"), allow_nan=False)
