"""Array types, and means that know what is missing."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]


def ratio(sums: Floats, counts: Floats) -> Floats:
    """sums / counts, NaN where there is nothing to divide by."""
    nothing: Floats = np.full(np.broadcast(sums, counts).shape, np.nan)
    return np.divide(sums, counts, out=nothing, where=counts > 0)


def mean(values: Floats, kept: Flags, axis: int) -> Floats:
    """Mean of the kept values; NaN where none is."""
    counts = kept.sum(axis=axis).astype(np.float64)
    return ratio(np.where(kept, values, 0.0).sum(axis=axis), counts)


def running_mean(values: Floats, kept: Flags) -> tuple[Floats, Floats]:
    """Means of the kept values up to each place of the last axis, and how many they are."""
    counts = np.cumsum(kept, axis=-1).astype(np.float64)
    return ratio(np.cumsum(np.where(kept, values, 0.0), axis=-1), counts), counts


def median(values: Floats, kept: Flags, axis: int) -> Floats:
    """Median of the kept values; NaN where none is. Sorting puts what isn't kept last."""
    ordered = np.sort(np.where(kept, values, np.inf), axis=axis)
    counts = kept.sum(axis=axis, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(counts - 1, 0) // 2, axis=axis)
    high = np.take_along_axis(ordered, counts // 2, axis=axis)
    return np.squeeze(np.where(counts > 0, (low + high) / 2, np.nan), axis=axis)
