"""One gate followed through all its looks: the interval at each, and what keeps it from deciding.

All arrays end in the window axis; before it stand any dimensions of independent runs, so that one call follows a run
and another ten thousand simulated ones. Harm is positive in here, whichever direction the gate calls worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from specdecode_operator.gates import catastrophe
from specdecode_operator.gates.arrays import Flags, Floats, mean, ratio
from specdecode_operator.gates.control import drift_limit, quiet
from specdecode_operator.gates.distributions import t_quantile
from specdecode_operator.gates.estimate import Difference, PodValues, Sides, difference, pod_values, ratio_values
from specdecode_operator.gates.looks import t_bounds
from specdecode_operator.gates.plan import Gate, Plan
from specdecode_operator.gates.rules import (
    ACCEPTANCE_RUNNING,
    ARM_SHARE,
    BUCKET_ALPHA,
    BUCKET_DOUBT,
    BUCKET_SHARE,
    CATASTROPHE_FLOOR,
    HALVES_LEVEL,
    LEAST_ERROR,
    OVERLAP,
    OWN_VARIANCE_PODS,
    VARIANCE_FLOOR,
)
from specdecode_operator.gates.scores import cell_scores, overlap, window_scores
from specdecode_operator.gates.verdict import Reason


@dataclass(frozen=True)
class Cells:
    """A span's arrays, [..., pods, windows, buckets]. NaN is what can't be used."""

    values: Floats
    """ln of the cell's mean."""
    counts: Floats
    """Steps of the cell, fit or not."""
    weights: Floats
    """Weight of each bucket, [buckets]; 0 for those that the plan doesn't know."""
    control: Floats
    """ln of the control's mean, with buckets of its own; no bucket without a control."""
    control_weights: Floats


@dataclass(frozen=True)
class Lengths:
    """Acceptance's arrays, [..., pods, windows]."""

    tokens: Floats
    drafts: Floats
    kept: Flags
    running: Floats
    """Requests running on the pod."""


@dataclass(frozen=True)
class Trays:
    """Baselines of each pod's tray, [..., pods]."""

    mean: Floats
    control_mean: Floats
    control_median: Floats
    control_mad: Floats


@dataclass(frozen=True)
class Course:
    """All looks of a gate, [..., windows] where nothing else is said."""

    found: Difference
    lower: Floats
    """Lower bound at Fail's error."""
    upper: Floats
    """Upper bound at Pass's error."""
    error: Floats
    """Standard error of the estimate."""
    degrees: Floats
    """Its degrees of freedom."""
    drift: Floats
    """q; zero without a control."""
    raw: Floats
    """The estimate with nothing subtracted and nothing excluded."""
    kept: Flags
    """[..., pods, windows]: used."""
    lost: Flags
    """[..., pods, windows]: not to be used, for another reason than its control."""
    passes: Flags
    fails: Flags
    bucket_fails: Flags
    stops: Flags
    """A catastrophe."""
    obstacles: Mapping[Reason, Flags] = field(default_factory=dict)
    """What keeps a look from deciding, the gravest first."""


def follow(plan: Plan, gate: Gate, sides: Sides, trays: Trays, cells: Cells) -> Course:
    """A span's course."""
    stable = sides.stable
    by_cell = cell_scores(_jointly(gate.sign * cells.values, cells.control), stable, plan.stable.pods)
    scores = window_scores(by_cell, cells.weights)
    fit = np.isfinite(scores)
    subtracted, kept, lost, control, drift = np.zeros_like(scores), fit, ~fit, None, np.zeros(_looks(scores))
    if gate.control is not None:
        control = window_scores(cell_scores(cells.control, stable, plan.stable.pods), cells.control_weights)
        kept = fit & quiet(control, trays.control_median, trays.control_mad)
        lost = ~fit | ~np.isfinite(control)
        drift = _drift(control, kept, sides, trays)
        subtracted = gate.control.beta * gate.sign * control
    subtracted = subtracted + ((gate.tracking.weight if gate.tracking else 0.0) * gate.sign * trays.mean)[..., None]
    values = pod_values(scores - subtracted, kept)
    raw = difference(pod_values(scores, fit).values, np.ones_like(fit), sides).estimate
    excess = catastrophe.excess(scores, sides, control)
    return _course(
        plan,
        gate,
        sides,
        values,
        drift=drift,
        raw=raw,
        kept=kept,
        lost=lost,
        buckets=_buckets(plan, gate, sides, by_cell - subtracted[..., None], kept, cells.weights),
        stops=catastrophe.running(excess > catastrophe.limit(plan, gate), np.isfinite(excess)),
        unbalanced=~(overlap(cells.counts, stable) >= OVERLAP),
    )


def follow_acceptance(plan: Plan, gate: Gate, sides: Sides, lengths: Lengths) -> Course:
    """The acceptance length's course: ln(sum tokens / sum drafts) a pod over the whole time.

    Drafts of one request resemble each other, so neither drafts nor windows are evidence of their own.
    """
    # A draft yields one token at least, the bonus: less is no acceptance length.
    kept = lengths.kept & (lengths.drafts > 0) & (lengths.tokens >= lengths.drafts)
    plain = ratio_values(lengths.tokens, lengths.drafts, kept)
    values = PodValues(
        gate.sign * plain.values, plain.counted, gate.sign * plain.first_half, gate.sign * plain.second_half
    )
    window = gate.sign * np.log(
        ratio(lengths.tokens, np.where(kept, lengths.drafts, 0.0)), where=kept, out=np.full(kept.shape, np.nan)
    )
    nothing: Flags = np.zeros(_looks(window), np.bool_)
    busy = mean(lengths.running, kept & ~sides.stable[:, None], axis=-2) >= ACCEPTANCE_RUNNING
    excess = catastrophe.excess(window, sides)
    return _course(
        plan,
        gate,
        sides,
        values,
        drift=np.zeros(_looks(window)),
        raw=difference(values.values, np.ones_like(kept), sides).estimate,
        kept=kept,
        lost=~kept,
        buckets=_Buckets(nothing, nothing),
        stops=catastrophe.running(busy & (excess > catastrophe.limit(plan, gate)), np.isfinite(excess)),
        unbalanced=nothing,
    )


def _looks(scores: Floats | Flags) -> tuple[int, ...]:
    """Shape of what has one value a look, for scores of [..., pods, windows]."""
    return (*scores.shape[:-2], scores.shape[-1])


def _jointly(values: Floats, control: Floats) -> Floats:
    """Cells that have a fit control too, where the control is told apart by bucket as the span is."""
    if control.shape[-1] != values.shape[-1]:
        return values
    return np.where(np.isfinite(control), values, np.nan)


def _course(
    plan: Plan,
    gate: Gate,
    sides: Sides,
    values: PodValues,
    *,
    drift: Floats,
    raw: Floats,
    kept: Flags,
    lost: Flags,
    buckets: _Buckets,
    stops: Flags,
    unbalanced: Flags,
) -> Course:
    """Intervals of the arms' difference at each look, and what they say."""
    found = difference(values.values, values.counted, sides)
    variance, degrees = _pod_variance(plan, gate, found)
    error = np.sqrt(variance * found.leverage + _start_variance(gate, found))
    with np.errstate(invalid="ignore"):
        to_pass = bounds_at(plan, plan.errors.passing, degrees) * error
        to_fail = bounds_at(plan, _fail_alpha(plan, gate), degrees) * error
    few = ~_enough(plan, found) | ~np.isfinite(error)
    alike = error < LEAST_ERROR
    apart = _apart(values, sides)
    cooling, worsening = _unsettled(values, sides)
    quiet_drift = drift_limit(gate.margin)
    sound = ~few & ~alike & ~apart & ~unbalanced
    passes = _beneath(gate, found.estimate, to_pass) & sound & (np.abs(drift) < quiet_drift)
    stands = sound & (drift > -quiet_drift) & ~cooling
    return Course(
        found=found,
        lower=found.estimate - to_fail,
        upper=found.estimate + to_pass,
        error=error,
        degrees=degrees,
        drift=drift,
        raw=raw,
        kept=kept,
        lost=lost,
        passes=passes & ~cooling & ~worsening & ~buckets.doubtful,
        fails=_beyond(gate, found.estimate, to_fail) & stands,
        bucket_fails=buckets.beyond & stands,
        stops=stops,
        obstacles={
            Reason.FEW_PODS: few,
            Reason.NO_SPREAD: alike,
            Reason.BASELINE_APART: apart,
            Reason.UNBALANCED_LOAD: unbalanced,
            Reason.DRIFT: ~(np.abs(drift) < quiet_drift),
            Reason.NOT_SETTLED: cooling | worsening,
            Reason.BUCKET_DOUBTFUL: buckets.doubtful,
        },
    )


def _beneath(gate: Gate, estimate: Floats, reach: Floats) -> Flags:
    """Whether the interval lies where passing is."""
    with np.errstate(invalid="ignore"):
        if gate.kind == "superior":
            return np.asarray(estimate + reach < -gate.margin)
        inside = estimate + reach < gate.margin
        return np.asarray(inside & (estimate - reach > -gate.margin) if gate.kind == "equivalent" else inside)


def _beyond(gate: Gate, estimate: Floats, reach: Floats) -> Flags:
    """Whether the interval lies where failing is."""
    with np.errstate(invalid="ignore"):
        if gate.kind == "superior":
            return np.asarray(estimate - reach > 0)
        harm = estimate - reach > gate.margin
        return np.asarray(harm | (estimate + reach < -gate.margin) if gate.kind == "equivalent" else harm)


def _apart(values: PodValues, sides: Sides) -> Flags:
    """Whether the stable pods that are compared lie so far from the others that something else must be wrong."""
    counted = values.counted & np.isfinite(values.values)
    here, there = (
        mean(values.values, counted & group[:, None], axis=-2)
        for group in (sides.against, sides.stable & ~sides.against)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(here - there) >= CATASTROPHE_FLOOR)


def _fail_alpha(plan: Plan, gate: Gate) -> float:
    """Fail's error, less what the guards of single buckets take."""
    guarded = gate.measure == "span" and len(gate.span.strata) > 1
    return plan.fail_error * (1 - BUCKET_ALPHA if guarded else 1)


def _enough(plan: Plan, found: Difference) -> Flags:
    """Whether 75% of each arm's pods count."""
    return np.asarray(
        (found.stable >= ARM_SHARE * plan.compared) & (found.candidate >= ARM_SHARE * plan.candidate.pods)
    )


def _pod_variance(plan: Plan, gate: Gate, found: Difference, share: float = 1.0) -> tuple[Floats, Floats]:
    """Variance of one pod's value and its degrees of freedom.

    The run's own from five stable pods on. Of fewer it is too loose to decide by: at 2, 3 and 4 pods 4.1, 1.8 and 0.8%
    of simulated decisions were wrong. Then a registered one stands in, raised to the run's own where that is larger.
    `share` of the steps is in the value: the registered noise of windows grows as it shrinks.
    """
    elapsed = np.arange(1, found.variance.shape[-1] + 1)
    registered = gate.noise.between + gate.noise.long_run / elapsed / share
    if plan.spread_pods >= OWN_VARIANCE_PODS:
        return np.maximum(found.variance, VARIANCE_FLOOR * registered), _effective_degrees(gate, found, registered)
    return np.fmax(found.variance, registered), np.full_like(found.degrees, gate.noise.starts - 1)


def _effective_degrees(gate: Gate, found: Difference, stable: Floats) -> Floats:
    """Degrees of freedom of the pooled variance, fewer where the arms' variances differ (Satterthwaite 1946).

    With a tray's baseline a candidate's value varies by 2 b s_i^2 more than a stable one's. For V = L S^2 + known,
    where S^2 is pooled: 2 V^2 / var(L S^2).
    """
    if gate.tracking is None:
        return found.degrees
    candidate = stable + 2 * gate.tracking.weight * gate.tracking.start_spread**2
    whole = ratio(stable * np.ones_like(found.stable), found.stable) + ratio(
        candidate * np.ones_like(found.candidate), found.candidate
    )
    spread = np.maximum(found.stable - 1, 0) * stable**2 + np.maximum(found.candidate - 1, 0) * candidate**2
    effective = ratio((whole * found.degrees) ** 2, found.leverage**2 * spread)
    return np.asarray(np.where(found.degrees >= 1, np.fmin(found.degrees, np.floor(effective)), found.degrees))


def _start_variance(gate: Gate, found: Difference) -> Floats:
    """What the candidate's mean varies by beyond the pooled variance, as its tray's baseline is of another start.

    A candidate's value has 2 b s_i^2 more variance than a stable pod's, whose start is the one of its baseline. One
    slot shows nothing of it: 2 b s_i^2 / nc. Of several, (nc - 1) / (ns + nc - 2) of it is in the pooled variance.
    """
    if gate.tracking is None:
        return np.zeros_like(found.candidate)
    extra = 2 * gate.tracking.weight * gate.tracking.start_spread**2
    seen = ratio(found.candidate - 1, np.maximum(found.degrees, 1)) * found.leverage
    return np.maximum(ratio(np.full_like(found.candidate, extra), found.candidate) - extra * np.nan_to_num(seen), 0.0)


def bounds_at(plan: Plan, alpha: float, degrees: Floats) -> Floats:
    """The bound of each window's look, as a t quantile with that look's degrees of freedom; infinite where none is."""
    windows = degrees.shape[-1]
    first, planned = plan.windows.first_look, plan.windows.planned
    table = np.full((int(np.max(degrees, initial=0)) + 1, windows), np.inf)
    for df in np.unique(degrees[degrees >= 1]).astype(int).tolist():
        table[df, first - 1 :] = t_bounds(alpha, first, planned, df)[: max(windows - first + 1, 0)]
    return np.asarray(table[np.maximum(degrees, 0).astype(int), np.arange(windows)])


def _drift(control: Floats, kept: Flags, sides: Sides, trays: Trays) -> Floats:
    """q: the arms' control difference now, less that before the swap on the same trays."""
    since = pod_values(control - trays.control_mean[..., None], kept)
    return difference(since.values, since.counted, sides).estimate


def _unsettled(values: PodValues, sides: Sides) -> tuple[Flags, Flags]:
    """Whether harm fell, or rose, from the first half of the windows to the second: Student's t over pods, at 1%."""
    moved = difference(values.second_half - values.first_half, values.counted, sides)
    error = np.sqrt(moved.variance * moved.leverage)
    limit = _single_bound(HALVES_LEVEL / 2, moved.degrees) * error
    with np.errstate(invalid="ignore"):
        return np.asarray(moved.estimate < -limit), np.asarray(moved.estimate > limit)


@dataclass(frozen=True)
class _Buckets:
    """What single batch buckets say at each look."""

    beyond: Flags
    """One lies beyond the margin, at its share of Fail's error."""
    doubtful: Flags
    """One looks beyond the margin at this look alone: nothing passes, as early looks may spend too little to fail."""


def _buckets(plan: Plan, gate: Gate, sides: Sides, scores: Floats, kept: Flags, weights: Floats) -> _Buckets:
    """Each batch bucket by itself: what the others gain must not hide what one loses."""
    beyond: Flags = np.zeros(_looks(kept), np.bool_)
    doubtful = beyond.copy()
    known = np.flatnonzero(weights > 0).tolist()
    if len(known) < 2 or gate.kind == "superior":
        return _Buckets(beyond, doubtful)
    alpha = plan.fail_error * BUCKET_ALPHA / len(known)
    elapsed = np.arange(1, kept.shape[-1] + 1)
    for bucket in known:
        here = kept & np.isfinite(scores[..., bucket])
        counted = np.cumsum(here, axis=-1) >= BUCKET_SHARE * elapsed
        found = difference(pod_values(scores[..., bucket], here).values, counted, sides)
        variance, degrees = _pod_variance(plan, gate, found, BUCKET_SHARE * weights[bucket] / weights.sum())
        error = np.sqrt(variance * found.leverage + _start_variance(gate, found))
        with np.errstate(invalid="ignore"):
            to_fail, to_doubt = bounds_at(plan, alpha, degrees) * error, _single_bound(BUCKET_DOUBT, degrees) * error
        enough = _enough(plan, found)
        beyond |= enough & _beyond(gate, found.estimate, to_fail)
        doubtful |= enough & _beyond(gate, found.estimate, to_doubt)
    return _Buckets(beyond, doubtful)


def _single_bound(tail: float, degrees: Floats) -> Floats:
    """t quantiles of a single look."""
    sizes = np.unique(degrees[degrees >= 1]).astype(int).tolist()
    table = np.full(max(sizes, default=0) + 1, np.inf)
    for df in sizes:
        table[df] = t_quantile(tail, df)
    return np.asarray(table[np.maximum(degrees, 0).astype(int)])
