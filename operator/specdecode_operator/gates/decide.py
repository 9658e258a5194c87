"""Where a course first decides. The first crossing is final; a look that may not decide is a look missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specdecode_operator.gates.arrays import Flags, Floats
from specdecode_operator.gates.course import Course
from specdecode_operator.gates.distributions import fisher_exact
from specdecode_operator.gates.rules import KEPT_SHARE, LOSS_LEVEL


@dataclass(frozen=True)
class Decision:
    """Where runs decide, [...]."""

    at: NDArray[np.int64]
    """Index of the window; -1 if never."""
    passed: Flags
    failed: Flags


def first_decision(course: Course, stable: Flags, fit: Flags, *, may_pass: bool = True) -> Decision:
    """The first look that decides. `fit` [windows]: whether the traffic was; a catastrophe doesn't ask."""
    fails = (course.fails | course.bucket_fails) & fit
    crossing = fails | (course.passes & fit & may_pass)
    _miss_uneven(crossing, losses(course.lost, stable))
    decides = course.stops | crossing
    at = np.where(decides.any(axis=-1), decides.argmax(axis=-1), -1)
    failing = np.take_along_axis(course.stops | fails, np.maximum(at, 0)[..., None], axis=-1)[..., 0]
    return Decision(at=at, passed=(at >= 0) & ~failing, failed=(at >= 0) & failing)


def _miss_uneven(crossing: Flags, sides: tuple[Floats, ...]) -> None:
    """Strike out the crossings, up to the first that holds, by when the arms had lost windows unevenly."""
    for run in np.ndindex(crossing.shape[:-1]):
        for window in np.flatnonzero(crossing[run]).tolist():
            if not uneven(sides, (*run, window)):
                break
            crossing[(*run, window)] = False


def uneven(sides: tuple[Floats, ...], place: tuple[int, ...]) -> bool:
    """Whether the arms' losses differ: Fisher's exact test at 1%."""
    lost_candidate, kept_candidate, lost_stable, kept_stable = (int(side[place]) for side in sides)
    return fisher_exact(lost_candidate, kept_candidate, lost_stable, kept_stable) < LOSS_LEVEL


def losses(lost: Flags, stable: Flags) -> tuple[Floats, ...]:
    """Windows lost and not lost until each window, of the candidate and then of stable: [..., windows] each.

    All pods of the candidate, since slow samples may die with their pod; of stable those that count, since one that is
    gone takes nothing else along.
    """
    gone = np.cumsum(lost, axis=-1)
    elapsed = np.arange(1, gone.shape[-1] + 1)
    sides: list[Floats] = []
    for pods in (~stable[:, None] & np.ones_like(lost), stable[:, None] & (gone <= (1 - KEPT_SHARE) * elapsed + 1e-9)):
        missing = np.where(pods, gone, 0).sum(axis=-2)
        sides += [missing, pods.sum(axis=-2) * elapsed - missing]
    return tuple(sides)
