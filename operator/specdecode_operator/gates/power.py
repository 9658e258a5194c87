"""What a run could find: said before anything moves, and what would do if this plan won't."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from specdecode_operator.gates.distributions import t_quantile
from specdecode_operator.gates.looks import t_bounds
from specdecode_operator.gates.plan import Noise, Tracking
from specdecode_operator.gates.rules import OWN_VARIANCE_PODS

MISSED: Final = 0.05
"""One run in twenty may end undecided at the smallest detectable effect, unless somebody asks for another power."""

REQUESTS_FACTOR: Final = 36.8
"""(z of the last look + z_.95)^2 at 1% one-sided, doubled: answers differ in length, so that a request counts half."""


@dataclass(frozen=True)
class Run:
    """A run as planned, for one gate."""

    noise: Noise
    margin: float
    stable: int
    candidate: int
    windows: int
    first_look: int = 10
    passing: float = 0.01
    """One-sided error of a wrong Pass."""
    tracking: Tracking | None = None
    fresh: bool = False
    """Whether as many stable slots as the candidate has are restarted, and only those compared."""
    missed: float = MISSED
    """Share of runs that may end undecided at the smallest detectable effect."""


@dataclass(frozen=True)
class Power:
    """What it could find."""

    smallest_detectable: float
    """Effect beyond which 95 of 100 runs decide by the planned end."""
    passes: bool
    """Whether a candidate that is no different passes: the smallest detectable effect is within the margin."""
    windows: int | None
    """Fewest windows that would do with these slots; None if no duration does."""
    slots: int | None
    """Fewest candidate slots of the same fleet that would do in the planned time; None if none does."""
    sentence: str


def power(run: Run) -> Power:
    """The smallest detectable effect, and what would do."""
    detectable = smallest_detectable(run, run.windows)
    windows, slots = windows_needed(run), _slots(run)
    return Power(detectable, detectable <= run.margin, windows, slots, _sentence(run, detectable, windows, slots))


def windows_needed(run: Run) -> int | None:
    """Fewest windows whose smallest detectable effect is within the margin; None if no duration brings it there."""
    at_last = smallest_detectable(run, math.inf)
    if not at_last < run.margin:
        return None
    # Squares of effects fall as 1 / windows.
    at_one = smallest_detectable(run, 1)
    return max(run.first_look, math.ceil((at_one**2 - at_last**2) / (run.margin**2 - at_last**2)))


def standard_error(run: Run, windows: float) -> float:
    """SE(T)^2 = (s_b^2 + v/T)(1/ns + 1/nc) + 2 b s_i^2 / nc, ns: stable slots compared. `windows` may be infinite."""
    pod = run.noise.between + run.noise.long_run / windows
    compared = run.candidate if run.fresh else run.stable
    start = 2 * run.tracking.weight * run.tracking.start_spread**2 / run.candidate if run.tracking else 0.0
    return math.sqrt(pod * (1 / compared + 1 / run.candidate) + start)


def smallest_detectable(run: Run, windows: float) -> float:
    """(t of the last look + t_.95) SE: a Pass needs it within the margin, a Fail at margin + x needs it within x."""
    apart = run.fresh and run.candidate < run.stable
    own = run.stable - apart >= OWN_VARIANCE_PODS
    degrees = run.stable + run.candidate - 2 - apart if own else run.noise.starts - 1
    if degrees < 1:
        return math.inf
    last = t_bounds(run.passing, run.first_look, run.windows, degrees)[-1]
    return (last + t_quantile(run.missed, float(degrees))) * standard_error(run, windows)


def _slots(run: Run) -> int | None:
    """Fewest candidate slots: as many as there are now, or more at the cost of stable ones."""
    total = run.stable + run.candidate
    for slots in range(run.candidate, min(total - OWN_VARIANCE_PODS, total // 2 if run.fresh else total) + 1):
        split = Run(**{**vars(run), "stable": total - slots, "candidate": slots})
        if smallest_detectable(split, run.windows) <= run.margin:
            return slots
    return None


def _sentence(run: Run, detectable: float, windows: int | None, slots: int | None) -> str:
    stable = f"{run.candidate} restarted of {run.stable}" if run.fresh else f"{run.stable}"
    found = (
        f"{stable} stable and {run.candidate} candidate slots over {run.windows} windows find "
        f"{100 * detectable:.2f}% beyond the margin of {100 * run.margin:g}%"
    )
    if detectable <= run.margin:
        return f"{found}; that is enough."
    ways = [f"{windows} windows would do"] * (windows is not None) + [f"{slots} candidate slots would do"] * bool(slots)
    if windows is None:
        ways.insert(0, "no duration will do")
    return f"{found}, and a candidate that is no different would often stay undecided: {'; '.join(ways)}."


def requests_needed(spread: float, margin: float, stable: int, candidate: int) -> int:
    """Finished requests that the candidate arm needs for an acceptance gate.

    `spread`: standard deviation of one request's ln acceptance length. 36.8 (spread / margin)^2 (1 + nc/ns).
    """
    return round(REQUESTS_FACTOR * (spread / margin) ** 2 * (1 + candidate / stable))
