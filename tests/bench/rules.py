"""How Argo Rollouts, Flagger and OME would decide on the same windows, as their documentation describes them.

Each is given a query, one value a minute: the candidate's time against a fixed threshold (the stable pods' past), or
candidate over stable. All of them compare single values with a threshold; none knows how certain a value is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats

MINUTE = 2
"""Windows."""


@dataclass(frozen=True)
class Outcome:
    """Of each run: [runs]."""

    promoted: Flags
    aborted: Flags
    minutes: Floats


@dataclass(frozen=True)
class Rule:
    """From values to an outcome: `decide` takes whether each minute's value is too high, [runs, minutes]."""

    name: str
    text: str
    decide: Callable[[Flags], Outcome]
    worst_pod: bool = False


def argo(count: int, limit: int) -> Callable[[Flags], Outcome]:
    """analysis: `count` measurements, failed at more than `failureLimit` of them, else successful."""

    def decide(high: Flags) -> Outcome:
        failures = np.cumsum(high[:, :count], axis=1)
        fails = failures > limit
        aborted = fails.any(axis=1)
        return Outcome(~aborted, aborted, np.where(aborted, fails.argmax(axis=1) + 1, min(count, high.shape[1])))

    return decide


def flagger(steps: int, threshold: int) -> Callable[[Flags], Outcome]:
    """canaryAnalysis: a good check raises the weight by a step, `threshold` failed checks in all roll back."""

    def decide(high: Flags) -> Outcome:
        bad, good = np.cumsum(high, axis=1), np.cumsum(~high, axis=1)
        never = high.shape[1]
        stop = np.where((bad >= threshold).any(axis=1), (bad >= threshold).argmax(axis=1), never)
        done = np.where((good >= steps).any(axis=1), (good >= steps).argmax(axis=1), never)
        return Outcome(done < stop, stop < done, np.minimum(np.minimum(stop, done) + 1, never))

    return decide


def ome(steps: int, limit: int) -> Callable[[Flags], Outcome]:
    """canary analysis: a step advances at its first passing sample; more than `failureLimit` failures in it abort."""

    def decide(high: Flags) -> Outcome:
        runs, minutes = high.shape
        step, failed, at = np.zeros(runs, int), np.zeros(runs, int), np.full(runs, minutes)
        aborted = np.zeros(runs, bool)
        for minute in range(minutes):
            going = (step < steps) & ~aborted
            failed = np.where(going & high[:, minute], failed + 1, failed)
            passed = going & ~high[:, minute]
            step, failed = step + passed, np.where(passed, 0, failed)
            stops = going & (failed > limit)
            at = np.where(stops | (passed & (step == steps)), minute + 1, at)
            aborted |= stops
        return Outcome(step >= steps, aborted, at)

    return decide


RULES = (
    Rule("Argo 10/3", "count 10, failureLimit 3, interval 1m", argo(10, 3)),
    Rule("Argo 40/20", "count 40, failureLimit 20, interval 1m", argo(40, 20)),
    Rule("Flagger", "stepWeight 10, maxWeight 50, threshold 5, interval 1m", flagger(5, 5)),
    Rule("OME", "5 steps, failureLimit 3, worst series, interval 1m", ome(5, 3), worst_pod=True),
)

THRESHOLDS = tuple(np.round(np.arange(0.0, 0.105, 0.0025), 4).tolist())


def readings(values: Floats, weights: Floats, stable: Flags, past: Floats, rule: Rule) -> dict[str, Floats]:
    """A minute's values, [runs, minutes], by query: against the past, and candidate over stable."""
    pods = np.nansum(values * weights, axis=-1) / np.sum(weights * np.isfinite(values), axis=-1).clip(1e-9)
    there = np.isfinite(values).any(axis=-1)
    minutes = pods.shape[-1] // MINUTE

    def arm(which: Flags, worst: bool) -> Floats:
        shape = (pods.shape[0], int(which.sum()), minutes, MINUTE)
        ours = np.where(there, pods, np.nan)[:, which, : minutes * MINUTE].reshape(shape)
        with np.errstate(invalid="ignore"):
            each = np.nanmean(ours, axis=-1)
            return np.asarray(np.nanmax(each, axis=1) if worst else np.nanmean(each, axis=1))

    candidate = arm(~stable, rule.worst_pod)
    return {"past": candidate - past[:, None], "ratio": candidate - arm(stable, False)}
