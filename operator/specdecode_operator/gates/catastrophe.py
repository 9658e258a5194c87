"""What is so bad that no interval is needed: stopped within three windows, without waiting for a look."""

from __future__ import annotations

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats, mean, median
from specdecode_operator.gates.estimate import Sides
from specdecode_operator.gates.plan import Gate, Plan
from specdecode_operator.gates.rules import (
    ACCEPTANCE_SDS,
    CATASTROPHE_CONTROL,
    CATASTROPHE_FLOOR,
    CATASTROPHE_RUN,
    CATASTROPHE_SDS,
)


def excess(scores: Floats, sides: Sides, control: Floats | None = None) -> Floats:
    """r = candidate mean - stable median - 1.5 max(control, 0) of each window, NaN where an arm has none.

    `scores`, `control`: [..., pods, windows]. The stable median, so that one bad stable pod hides nothing; a control
    that is slower by the same machine's fault excuses one and a half times itself. Where stable pods were restarted, it
    is the smaller of what it is against them and against all: what is cold on both sides is no catastrophe, nor is one
    of them that is odd.
    """
    found = _above(scores, sides.stable, sides.stable, control)
    if sides.against is sides.stable:
        return found
    return np.fmin(found, _above(scores, sides.stable, sides.against, control))


def _above(scores: Floats, stable: Flags, against: Flags, control: Floats | None) -> Floats:
    plain = _between(scores, stable, against)
    if control is None:
        return plain
    return plain - CATASTROPHE_CONTROL * np.maximum(np.nan_to_num(_between(control, stable, against)), 0.0)


def _between(values: Floats, stable: Flags, against: Flags) -> Floats:
    there = np.isfinite(values)
    return mean(values, there & ~stable[:, None], axis=-2) - median(values, there & against[:, None], axis=-2)


def limit(plan: Plan, gate: Gate) -> float:
    """max(22.3%, 8 calibrated sd x sqrt(1/ns + 1/nc)); for acceptance 5 of them.

    The floor holds for both: without it, five quiet deviations would be inside a wide margin.
    """
    sd = gate.noise.window_sd * float((1 / plan.compared + 1 / plan.candidate.pods) ** 0.5)
    return max(CATASTROPHE_FLOOR, (ACCEPTANCE_SDS if gate.measure == "acceptance" else CATASTROPHE_SDS) * sd)


def running(beyond: Flags, there: Flags) -> Flags:
    """Whether it was beyond the limit in the last three windows that there were, [..., windows]."""
    streak = np.zeros(beyond.shape[:-1], int)
    stops = np.zeros_like(beyond)
    for window in range(beyond.shape[-1]):
        streak = np.where(there[..., window], np.where(beyond[..., window], streak + 1, 0), streak)
        stops[..., window] = streak >= CATASTROPHE_RUN
    return stops
