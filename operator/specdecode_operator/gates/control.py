"""The control: a span that the change cannot touch. It says when the machine, not the revision, was slow."""

from __future__ import annotations

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats, mean, median
from specdecode_operator.gates.rules import BETA_GAIN, DRIFT_FLOOR, EXCLUDED_FLOOR, EXCLUDED_MADS, MAD_TO_SD


def quiet(control: Floats, tray_median: Floats, tray_mad: Floats) -> Flags:
    """Windows whose control is near what the tray's was before the swap, the same rule for both arms.

    `control`: [..., pods, windows]; the tray's median and median absolute deviation: [..., pods]. The touched span is
    never looked at: dropping windows by what is measured would choose the result. A missing control is not quiet.
    """
    limit = np.maximum(EXCLUDED_MADS * MAD_TO_SD * tray_mad, EXCLUDED_FLOOR)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(control - tray_median[..., None]) <= limit[..., None])


def beta_of(touched: Floats, control: Floats) -> int:
    """Whether to subtract the control, from the stable pods' history: 1 if the pods' means then spread less.

    0 or 1 and nothing between: a coefficient regressed over time answers another question than the one between pods.
    """
    both = np.isfinite(touched) & np.isfinite(control)
    plain, less = (np.nanstd(mean(values, both, axis=-1), ddof=1) for values in (touched, touched - control))
    return int(less < BETA_GAIN * plain)


def drift_limit(margin: float) -> float:
    """mc = max(margin / 2, 1%): more than this between the arms' controls since the swap is drift."""
    return max(margin / 2, DRIFT_FLOOR)


def tray_baseline(control: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, median and median absolute deviation of each pod's control before the swap, over the last axis."""
    there = np.isfinite(control)
    middle = median(control, there, axis=-1)
    away = median(np.abs(control - middle[..., None]), there, axis=-1)
    return mean(control, there, axis=-1), middle, away
