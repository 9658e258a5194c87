"""What the looks' lines hold beyond the gates: what no verdict rests on, and a reader wants to see.

Acceptance by position: a draft whose acceptance length is above i had its first i tokens accepted, so the histogram of
lengths holds the shares of all positions.

The decomposition: a request that is decoded alone on its place in the batch gets the acceptance length's tokens in each
step, so its tokens/s are acceptance / step time, and the logarithms of the arms' ratios add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from specdecode_operator.gates.told import LENGTHS, PARTS

POSITIONS: Final = 8


@dataclass
class Total:
    """Growth of one histogram over the run."""

    count: float = 0.0
    sum: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)
    """Cumulative, by upper bound."""

    @property
    def mean(self) -> float:
        """NaN of nothing."""
        return self.sum / self.count if self.count > 0 else math.nan


@dataclass(frozen=True)
class Both:
    """A number of each arm."""

    stable: float
    candidate: float

    @property
    def change(self) -> float:
        """ln(candidate / stable); NaN where there is none."""
        fit = self.stable > 0 and self.candidate > 0 and math.isfinite(self.stable) and math.isfinite(self.candidate)
        return math.log(self.candidate / self.stable) if fit else math.nan


@dataclass(frozen=True)
class Decomposition:
    """tokens/s of one request = acceptance / step time."""

    acceptance: Both
    """Tokens a draft."""
    parts: Mapping[str, Both]
    """Milliseconds a step, by name."""
    step: Both
    """Their sum."""
    speed: Both
    """Tokens a second."""


Told = Mapping[tuple[str, str, str], Total]
"""By metric, batch bucket and arm."""


def told(looks: Iterable[Mapping[str, Any]]) -> Told:
    """All looks' growth together. A number that is none counts nothing."""
    found: dict[tuple[str, str, str], Total] = {}
    for metric, batch, arm, count, total, buckets in _rows(looks):
        here = found.setdefault((metric, batch, arm), Total())
        here.count += count
        here.sum += total
        for bound, below in buckets.items():
            here.buckets[bound] = here.buckets.get(bound, 0.0) + below
    return found


def _rows(looks: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str, str, float, float, dict[float, float]]]:
    for look in looks:
        for row in look.get("told") or ():
            try:
                buckets = {float(bound): float(count) for bound, count in (row.get("buckets") or {}).items()}
                numbers = (float(row["count"]), float(row["sum"]), *buckets.values())
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
            if all(math.isfinite(number) and number >= 0 for number in numbers):
                metric, batch, arm = (str(row.get(label, "")) for label in ("metric", "batch", "arm"))
                yield metric, batch, arm, numbers[0], numbers[1], buckets


def positions(found: Told) -> tuple[Both, ...]:
    """Share of the drafts whose token at each position was accepted, from the first to the last that ever was."""
    stable, candidate = (found.get((LENGTHS, "", arm), Total()) for arm in ("stable", "candidate"))
    shares = [Both(_accepted(stable, place), _accepted(candidate, place)) for place in range(1, POSITIONS + 1)]
    while shares and not (shares[-1].stable > 0 or shares[-1].candidate > 0):
        shares.pop()
    return tuple(shares)


def _accepted(total: Total, position: int) -> float:
    """Drafts longer than `position` tokens, the bonus included, had that many drafted tokens accepted."""
    if total.count <= 0 or float(position) not in total.buckets:
        return math.nan
    return max(0.0, 1 - total.buckets[float(position)] / total.count)


def decomposition(found: Told) -> Decomposition | None:
    """None where the record has not all of it: a step time without a part would be a wrong one."""
    acceptance = Both(*(found.get((LENGTHS, "", arm), Total()).mean for arm in ("stable", "candidate")))
    parts = {name: _standardized(found, metric) for metric, name in PARTS.items()}
    step = Both(sum(each.stable for each in parts.values()), sum(each.candidate for each in parts.values()))
    if not (step.stable > 0 and step.candidate > 0):
        return None
    speed = Both(1000 * acceptance.stable / step.stable, 1000 * acceptance.candidate / step.candidate)
    return Decomposition(acceptance, parts, step, speed) if math.isfinite(speed.change) else None


def _standardized(found: Told, metric: str) -> Both:
    """Milliseconds a step, both arms with the same mix of batches: that of both together, of those that both had."""
    pairs = [
        (found[metric, batch, "stable"], found[metric, batch, "candidate"])
        for name, batch, arm in sorted(found)
        if (name, arm) == (metric, "stable") and (metric, batch, "candidate") in found
    ]
    pairs = [pair for pair in pairs if all(total.count > 0 for total in pair)]
    steps = sum(stable.count + candidate.count for stable, candidate in pairs)
    if not steps:
        return Both(math.nan, math.nan)
    shares = [(stable.count + candidate.count) / steps for stable, candidate in pairs]
    means = [
        1000 * sum(share * pair[place].mean for share, pair in zip(shares, pairs, strict=True)) for place in (0, 1)
    ]
    return Both(*means)
