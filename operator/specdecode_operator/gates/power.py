"""What a run could find: said before anything moves, and what would do if this plan won't."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from specdecode_operator.gates.distributions import t_quantile
from specdecode_operator.gates.looks import t_bounds
from specdecode_operator.gates.plan import MAX_TRAYS, MAX_WINDOWS, Noise, Tracking
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
    seconds: float = 30.0
    """Length of a window."""


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
    fleet: int | None
    """Where neither does: fewest slots of a fleet, half of them the candidate's, that would do in the planned time."""
    sentence: str


def power(run: Run) -> Power:
    """The smallest detectable effect, and what would do."""
    detectable = smallest_detectable(run, run.windows)
    passes, windows, slots = detectable <= run.margin, windows_needed(run), _slots(run)
    fleet = _fleet(run) if windows is None and slots is None else None
    return Power(detectable, passes, windows, slots, fleet, _sentence(run, detectable, windows, slots, fleet))


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
    most = min(total - OWN_VARIANCE_PODS, total // 2 if run.fresh else total)
    fewest = range(run.candidate, most + 1)
    return next((slots for slots in fewest if _enough(run, total - slots, slots)), None)


def _fleet(run: Run) -> int | None:
    """Halves find the smallest effect that a fleet can, and more of them a smaller one: so by bisection."""
    low, high = run.stable + run.candidate, MAX_TRAYS
    if not _enough(run, high // 2, high // 2):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _enough(run, middle - middle // 2, middle // 2) else (middle, high)
    return high


def _enough(run: Run, stable: int, candidate: int) -> bool:
    """Whether such arms find the margin in the planned time."""
    return smallest_detectable(replace(run, stable=stable, candidate=candidate), run.windows) <= run.margin


def _sentence(run: Run, detectable: float, windows: int | None, slots: int | None, fleet: int | None) -> str:
    stable = f"{run.candidate} restarted of {run.stable}" if run.fresh else f"{run.stable}"
    found = (
        f"{stable} stable and {run.candidate} candidate slots over {run.windows} windows find "
        f"{100 * detectable:.2f}% beyond the margin of {100 * run.margin:g}%"
    )
    if detectable <= run.margin:
        return f"{found}; that is enough."
    ways = ["no duration will do" if windows is None else _duration(run, windows)]
    ways += [f"{slots} candidate slots would do"] * bool(slots)
    if windows is None and slots is None:
        other = f", but a fleet of {fleet}, half of them the candidate's, would" if fleet else ""
        ways.append(f"nor any split of {run.stable + run.candidate} slots{other}")
    return f"{found}, and a candidate that is no different would often stay undecided: {'; '.join(ways)}."


def _duration(run: Run, windows: int) -> str:
    """Of more windows than a plan holds, only the time is right: they have to be longer."""
    minutes = math.ceil(windows * run.seconds / 60)
    if windows <= MAX_WINDOWS:
        return f"{windows} windows ({minutes} minutes) would do"
    return f"{minutes} minutes would do, in windows of {math.ceil(60 * minutes / MAX_WINDOWS)} s or more"


def requests_needed(spread: float, margin: float, stable: int, candidate: int) -> int:
    """Finished requests that the candidate arm needs for an acceptance gate.

    `spread`: standard deviation of one request's ln acceptance length. 36.8 (spread / margin)^2 (1 + nc/ns).
    """
    return round(REQUESTS_FACTOR * (spread / margin) ** 2 * (1 + candidate / stable))
