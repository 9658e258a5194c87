"""Numbers of the pictures: what the arms showed in each window, and where windows were lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats, mean, ratio
from specdecode_operator.gates.intake import Intake
from specdecode_operator.gates.judge import spending
from specdecode_operator.gates.plan import Gate
from specdecode_operator.gates.scores import window_scores
from specdecode_operator.report.case import Judged


@dataclass(frozen=True)
class ArmSeries:
    """One arm's values, [windows]; NaN where no pod of it has one."""

    middle: Floats
    """Mean over its pods."""
    lowest: Floats
    highest: Floats


@dataclass(frozen=True)
class Shown:
    """Both arms in a gate's own unit: milliseconds, or tokens a draft."""

    stable: ArmSeries
    candidate: ArmSeries
    unit: str


@dataclass(frozen=True)
class PodRow:
    """One pod's windows."""

    uid: str
    node: str
    candidate: bool
    reasons: tuple[str, ...]
    """Of each window why it wasn't used; empty if it was."""


def shown(judged: Judged, gate: Gate) -> Shown:
    """What each arm measured, before anything is compared."""
    intake = judged.intake
    acceptance = gate.measure == "acceptance"
    values = _lengths(intake, gate) if acceptance else 1000 * np.exp(_weighted(intake, gate))
    kept = judged.courses[gate.name].kept & np.isfinite(values)
    stable = intake.stable
    return Shown(
        stable=_arm(values, kept & stable[:, None]),
        candidate=_arm(values, kept & ~stable[:, None]),
        unit="tokens a draft" if acceptance else "ms",
    )


def _weighted(intake: Intake, gate: Gate) -> Floats:
    values, _, weights = intake.span(gate.span)
    return window_scores(values, weights)


def _lengths(intake: Intake, gate: Gate) -> Floats:
    series = intake.series(gate.span.metric, gate.span.step)
    return ratio(series.sums.sum(axis=-1), series.counts.sum(axis=-1))


def _arm(values: Floats, kept: Flags) -> ArmSeries:
    some = kept.any(axis=0)
    lowest, highest = (np.where(kept, values, edge) for edge in (np.inf, -np.inf))
    return ArmSeries(
        middle=mean(values, kept, axis=0),
        lowest=np.where(some, lowest.min(axis=0, initial=np.inf), np.nan),
        highest=np.where(some, highest.max(axis=0, initial=-np.inf), np.nan),
    )


def pod_rows(judged: Judged, gate: Gate) -> tuple[PodRow, ...]:
    """Each pod's windows, stable pods first."""
    reasons = spending(judged.intake, gate, judged.courses[gate.name])
    return tuple(
        PodRow(
            uid=pod.uid,
            node=pod.node,
            candidate=pod.revision == judged.intake.plan.candidate.revision,
            reasons=tuple(map(str, row)),
        )
        for pod, row in zip(judged.intake.pods, reasons, strict=True)
    )
