"""What the stable arm's history says before the run: noise, the control's use, trays' baselines, the trays to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from specdecode_operator.gates.arrays import Floats, median
from specdecode_operator.gates.control import beta_of, tray_baseline
from specdecode_operator.gates.distributions import chi2_quantile
from specdecode_operator.gates.intake import Intake
from specdecode_operator.gates.plan import Baseline, Gate, Noise
from specdecode_operator.gates.rules import MAD_TO_SD
from specdecode_operator.gates.scores import cell_scores, window_scores

FEWEST_WINDOWS: Final = 120
"""Windows of history that a calibration needs."""

UPPER_LIMIT: Final = 0.8
"""Level of the upper limit of the variance between pods: a history of few pods must not promise too much."""

KEPT_HISTORY: Final = 0.8
"""Part of the windows that a pod's history must have."""


@dataclass(frozen=True)
class Calibration:
    """What goes into the plan for one gate."""

    noise: Noise
    beta: int
    baselines: Mapping[str, Baseline]
    """By node."""
    pods: int
    windows: int


class TooLittleHistory(Exception):
    """There are too few windows or pods to calibrate on; says how many were found and are needed."""


def calibrate(history: Intake, gate: Gate) -> Calibration:
    """Calibrate a gate on samples of the stable arm alone.

    `history` is taken in with a plan whose windows lie in the past.

    Raises:
        TooLittleHistory: there are fewer than 120 windows, or than two pods that have 80% of them.
    """
    if gate.measure == "acceptance":
        return _calibrated(history, _length_scores(history, gate), None)
    values, _, weights = history.span(gate.span)
    scores = window_scores(cell_scores(values, history.stable, history.plan.stable.pods), weights)
    control = None
    if gate.control is not None:
        cells, _, control_weights = history.span(gate.control.span)
        control = window_scores(cell_scores(cells, history.stable, history.plan.stable.pods), control_weights)
    return _calibrated(history, scores, control)


def _length_scores(history: Intake, gate: Gate) -> Floats:
    values, _, _ = history.span(gate.span)
    return window_scores(cell_scores(values, history.stable, history.plan.stable.pods), np.ones(values.shape[-1]))


def _calibrated(history: Intake, scores: Floats, control: Floats | None) -> Calibration:
    enough = (np.isfinite(scores).mean(axis=-1) >= KEPT_HISTORY) & history.stable
    if history.elapsed < FEWEST_WINDOWS or enough.sum() < 2:
        raise TooLittleHistory(
            f"{history.elapsed} windows of {int(enough.sum())} pods with {KEPT_HISTORY:.0%} of them; "
            f"{FEWEST_WINDOWS} windows of 2 pods or more are needed; let the stable revision serve longer"
        )
    beta = beta_of(scores[enough], control[enough]) if control is not None else 0
    adjusted = scores - control if control is not None and beta else scores
    return Calibration(
        noise=noise_of(adjusted[enough]),
        beta=beta,
        baselines=_baselines(history, adjusted, control),
        pods=int(enough.sum()),
        windows=history.elapsed,
    )


def noise_of(scores: Floats) -> Noise:
    """Variance components of [pods, windows], NaN where a window is missing.

    `between`: the variance of pod means over the history, at its upper 80% chi-square limit, less what its windows
    alone would give, v / T0; never below zero. `longRun`: v, see `long_run_variance`.
    """
    there = np.isfinite(scores)
    means = np.nanmean(scores, axis=-1)
    pods, windows = scores.shape[0], float(there.sum(axis=-1).mean())
    spread = float(np.var(means, ddof=1)) * (pods - 1) / chi2_quantile(1 - UPPER_LIMIT, pods - 1)
    long_run = long_run_variance(scores)
    away = np.abs(scores - median(scores, there, axis=-1)[:, None])
    return Noise(
        between=max(0.0, spread - long_run / windows),
        long_run=long_run,
        starts=pods,
        window_sd=MAD_TO_SD * float(np.nanmean(median(away, there, axis=-1))),
    )


def long_run_variance(scores: Floats) -> float:
    """Long-run variance of one pod's windows, pooled over [pods, windows].

    Mean of squared cosine transforms of the lowest B = 0.41 T^(2/3) frequencies, equally weighted (Lazarus, Lewis,
    Stock and Watson 2018): no model of the autocorrelation, no bandwidth to choose. A missing window takes its pod's
    mean.
    """
    windows = scores.shape[-1]
    frequencies = max(1, int(0.41 * windows ** (2 / 3)))
    filled = scores - np.nanmean(scores, axis=-1, keepdims=True)
    share = np.isfinite(filled).mean()
    angles = np.pi * np.outer(np.arange(1, frequencies + 1), np.arange(windows) + 0.5) / windows
    transforms = math.sqrt(2 / windows) * np.nan_to_num(filled) @ np.cos(angles).T
    return float((transforms**2).mean() / share)


def _baselines(history: Intake, adjusted: Floats, control: Floats | None) -> dict[str, Baseline]:
    """By node; of several pods on one node, their mean."""
    means = np.nanmean(adjusted, axis=-1)
    controls = tray_baseline(control) if control is not None else (np.zeros_like(means),) * 3
    found: dict[str, list[tuple[float, ...]]] = {}
    for pod, numbers in zip(history.pods, zip(means, *controls, strict=True), strict=True):
        if all(map(math.isfinite, numbers)):
            found.setdefault(pod.node, []).append(tuple(float(number) for number in numbers))
    return {
        node: Baseline(**dict(zip(Baseline.model_fields, map(float, np.mean(numbers, axis=0)), strict=True)))
        for node, numbers in sorted(found.items())
    }


def slots_by_median(baselines: Mapping[str, Baseline], slots: int) -> Sequence[str]:
    """The nodes nearest the fleet's median: where the candidate goes, so that nobody picks after looking."""
    middle = float(np.median([baseline.mean for baseline in baselines.values()]))
    return sorted(baselines, key=lambda node: (abs(baselines[node].mean - middle), node))[:slots]
