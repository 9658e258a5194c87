"""The arms compared, with the pod as the unit.

Pods differ for as long as they live, so windows of one pod are not evidence of their own: the interval is Student's
over pod values, and needs no model of how a pod's windows hang together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats, mean, ratio, running_mean
from specdecode_operator.gates.rules import KEPT_SHARE


@dataclass(frozen=True)
class Sides:
    """Which arm each pod is of, [pods]."""

    stable: Flags
    against: Flags
    """Stable pods that the candidate is compared with: all, or those that were restarted for it. The others only tell
    how much pods differ."""

    @classmethod
    def of(cls, stable: Flags) -> Sides:
        """Compared with all stable pods."""
        return cls(stable, stable)


@dataclass(frozen=True)
class PodValues:
    """Values of pods at each look, [..., pods, windows], and which of them count."""

    values: Floats
    counted: Flags
    first_half: Floats
    second_half: Floats


def pod_values(adjusted: Floats, kept: Flags) -> PodValues:
    """M_p: mean of the kept windows so far. A pod counts while 80% of the elapsed windows are kept."""
    means, counts = running_mean(adjusted, kept)
    sums = np.cumsum(np.where(kept, adjusted, 0.0), axis=-1)
    first, second = halves(sums, counts)
    return PodValues(means, counting(counts), first, second)


def ratio_values(sums: Floats, counts: Floats, kept: Flags) -> PodValues:
    """ln(sum of sums / sum of counts) of the kept windows: never a mean of window ratios (Cochran 1977, ch. 6)."""
    total = np.cumsum(np.where(kept, sums, 0.0), axis=-1)
    events = np.cumsum(np.where(kept, counts, 0.0), axis=-1)
    kept_windows = np.cumsum(kept, axis=-1).astype(np.float64)
    first, second = halves(total, events)
    with np.errstate(divide="ignore", invalid="ignore"):
        return PodValues(
            np.log(ratio(total, events)), counting(kept_windows) & (total > 0), np.log(first), np.log(second)
        )


def counting(kept_windows: Floats) -> Flags:
    """Which pods count at each window, from how many windows they have kept until then."""
    elapsed = np.arange(1, kept_windows.shape[-1] + 1)
    return np.asarray(kept_windows >= KEPT_SHARE * elapsed - 1e-9)


def halves(sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Means over the first and the second half of the windows elapsed at each window, from running sums and counts."""
    middle = (np.arange(sums.shape[-1]) + 1) // 2 - 1
    early_sums = np.where(middle >= 0, sums[..., middle], 0.0)
    early_counts = np.where(middle >= 0, counts[..., middle], 0.0)
    return ratio(early_sums, early_counts), ratio(sums - early_sums, counts - early_counts)


@dataclass(frozen=True)
class Difference:
    """Candidate minus stable at each window, [..., windows]."""

    estimate: Floats
    variance: Floats
    """Pooled variance of pod values in a group; NaN below one degree of freedom."""
    degrees: Floats
    """Its degrees of freedom: each group has lost one to its own mean."""
    stable: Floats
    """Stable pods that are compared and count."""
    candidate: Floats
    beside: Floats
    """Other stable pods that count."""

    @property
    def leverage(self) -> Floats:
        """1/ns + 1/nc."""
        return ratio(np.ones_like(self.stable), self.stable) + ratio(np.ones_like(self.candidate), self.candidate)


def difference(values: Floats, counted: Flags, sides: Sides) -> Difference:
    """d = mean of candidate pods - mean of the stable pods compared, with the variance pooled (Student 1908).

    Stable pods that aren't compared are a third group: a contrast of two of several groups takes the variance within
    all of them (Scheffe 1959, ch. 3).
    """
    fit = counted & np.isfinite(values)
    means, squares, sizes = [], [], []
    for arm in (sides.against, ~sides.stable, sides.stable & ~sides.against):
        here = fit & arm[:, None]
        centre = mean(values, here, axis=-2)
        away = np.where(here, values - centre[..., None, :], 0.0)
        means.append(centre)
        squares.append((away**2).sum(axis=-2))
        sizes.append(here.sum(axis=-2).astype(np.float64))
    degrees = sizes[0] + sizes[1] - 2 + np.maximum(sizes[2] - 1, 0.0)
    variance = ratio(squares[0] + squares[1] + squares[2], np.maximum(degrees, 0.0))
    return Difference(means[1] - means[0], variance, degrees, *sizes)
