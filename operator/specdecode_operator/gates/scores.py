"""How far each pod is from the stable pods of the same window and batch bucket.

Comparing inside a bucket first, with weights fixed in the plan, keeps the mix of batches out of the result (Simpson
1951); comparing inside a window keeps out what all pods share.
"""

from __future__ import annotations

import math

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats, mean, ratio
from specdecode_operator.gates.rules import REFERENCE_PODS, REFERENCE_SHARE, SMALLEST, WEIGHT_SHARE


def log_means(sums: Floats, counts: Floats, fewest: int) -> Floats:
    """y = ln(sum / count) of each cell; NaN where a cell has fewer than `fewest` steps or nothing finite above zero."""
    fit = np.isfinite(sums) & np.isfinite(counts) & (counts >= max(fewest, 1)) & (sums > counts * SMALLEST)
    return np.log(
        ratio(np.where(fit, sums, 1.0), np.where(fit, counts, 1.0)), where=fit, out=np.full(fit.shape, np.nan)
    )


def cell_scores(cells: Floats, stable: Flags, expected: int) -> Floats:
    """e[p, w, k] = y - mean of the stable pods with that cell. `cells`: [..., pods, windows, buckets].

    NaN where fewer than half of the `expected` stable pods, or fewer than two, have the cell.
    """
    there = np.isfinite(cells) & stable[:, None, None]
    needed = max(REFERENCE_PODS, math.ceil(REFERENCE_SHARE * expected))
    reference = mean(cells, there, axis=-3)
    reference = np.where(there.sum(axis=-3) >= needed, reference, np.nan)
    return cells - reference[..., None, :, :]


def window_scores(scores: Floats, weights: Floats) -> Floats:
    """e[p, w] = sum g_k e / sum g_k over the valid cells: [..., pods, windows].

    NaN where they carry less than 70% of the weight.
    """
    there = np.isfinite(scores)
    carried = (there * weights).sum(axis=-1)
    summed = (np.where(there, scores, 0.0) * weights).sum(axis=-1)
    return np.where(carried >= WEIGHT_SHARE * weights.sum() - 1e-12, ratio(summed, carried), np.nan)


def weights_of(stable_shares: Floats, candidate_shares: Floats) -> Floats:
    """g_k = s_k c_k / (s_k + c_k) of the arms' step shares: the weights with the least variance (Cochran 1954)."""
    return np.nan_to_num(ratio(stable_shares * candidate_shares, stable_shares + candidate_shares))


def overlap(counts: Floats, stable: Flags) -> Floats:
    """Overlap of the arms' shares over buckets, all windows so far: sum_k min(s_k, c_k), [..., windows].

    1: the same mix; 0: no bucket in common. NaN while an arm has no step.
    """
    shares = []
    for arm in (stable, ~stable):
        steps = np.cumsum((np.nan_to_num(counts) * arm[:, None, None]).sum(axis=-3), axis=-2)
        shares.append(ratio(steps, steps.sum(axis=-1, keepdims=True)))
    return np.asarray(np.minimum(*shares).sum(axis=-1))
