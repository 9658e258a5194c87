"""How Argo Rollouts, Flagger and OME would decide on the same windows, as their documentation describes them.

Each is given a query, one value a minute: the candidate's time against a fixed threshold (the stable pods' past), or
candidate over stable. All of them compare single values with a threshold; none knows how certain a value is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

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


def argo(high: Flags, *, count: int, limit: int) -> Outcome:
    """analysis: `count` measurements, failed at more than `failureLimit` of them, else successful."""
    fails = np.cumsum(high[:, :count], axis=1) > limit
    aborted = fails.any(axis=1)
    return Outcome(~aborted, aborted, np.where(aborted, fails.argmax(axis=1) + 1, min(count, high.shape[1])))


def flagger(high: Flags, *, steps: int, threshold: int) -> Outcome:
    """canaryAnalysis: a good check raises the weight by a step, `threshold` failed checks in all roll back."""
    never = high.shape[1]
    stops, ends = np.cumsum(high, axis=1) >= threshold, np.cumsum(~high, axis=1) >= steps
    stop = np.where(stops.any(axis=1), stops.argmax(axis=1), never)
    end = np.where(ends.any(axis=1), ends.argmax(axis=1), never)
    return Outcome(end < stop, stop < end, np.minimum(np.minimum(stop, end) + 1, never))


def ome(high: Flags, *, steps: int, limit: int) -> Outcome:
    """canary analysis: a step advances at its first passing sample; more than `failureLimit` failures in it abort."""
    runs, minutes = high.shape
    step, failed, at = np.zeros(runs, np.int8), np.zeros(runs, np.int8), np.full(runs, minutes)
    aborted = np.zeros(runs, bool)
    for minute in range(min(minutes, steps * (limit + 1))):
        going = (step < steps) & ~aborted
        passed = going & ~high[:, minute]
        failed = np.where(passed, 0, failed + (going & high[:, minute]))
        step = step + passed
        stops = going & (failed > limit)
        at = np.where(stops | (passed & (step == steps)), minute + 1, at)
        aborted |= stops
    return Outcome(step >= steps, aborted, at)


RULES = (
    Rule("Argo 10/3", "count 10, failureLimit 3, interval 1m", partial(argo, count=10, limit=3)),
    Rule("Argo 40/20", "count 40, failureLimit 20, interval 1m", partial(argo, count=40, limit=20)),
    Rule("Flagger", "stepWeight 10, maxWeight 50, threshold 5, interval 1m", partial(flagger, steps=5, threshold=5)),
    Rule("OME", "5 steps, failureLimit 3, worst series, interval 1m", partial(ome, steps=5, limit=3), worst_pod=True),
)

THRESHOLDS = tuple(np.round(np.arange(0.0, 0.105, 0.0025), 4).tolist())


QUERIES = ("past", "ratio")


def readings(values: Floats, weights: Floats, stable: Flags, past: Floats) -> dict[tuple[str, bool], Floats]:
    """A minute's values, [runs, minutes], by query and by whether the worst pod is taken: the candidate against the
    past, and candidate over stable. What separates the arms adds to each."""
    pods = np.nansum(values * weights, axis=-1) / np.sum(weights * np.isfinite(values), axis=-1).clip(1e-9)
    pods = np.where(np.isfinite(values).any(axis=-1), pods, np.nan)
    minutes = pods.shape[-1] // MINUTE
    pods = np.nanmean(pods[..., : minutes * MINUTE].reshape(*pods.shape[:-1], minutes, MINUTE), axis=-1)
    baseline = np.nanmean(pods[:, stable], axis=1)
    found = {}
    for worst, candidate in (
        (False, np.nanmean(pods[:, ~stable], axis=1)),
        (True, np.nanmax(pods[:, ~stable], axis=1)),
    ):
        found |= {("past", worst): candidate - past[:, None], ("ratio", worst): candidate - baseline}
    return found
