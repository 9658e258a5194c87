"""Slots that go back to stable: all of them together, as far as minAvailable lets them, and no further.

Forward, slots move one at a time, since each is a risk. Back, waiting only costs: the revision that takes them is the
one that is known to serve. But a candidate that failed its gates still answers requests, and minAvailable is a promise
to those who send them: a few requests that are slower for some minutes are better than a fleet too small for its load.
Who would rather lose capacity lowers minAvailable, which counts at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specdecode_operator.plan.observe import Revision
from specdecode_operator.plan.rollout import SWAPPING, Goal, Move, RouteView, held_by_min_available, serving
from specdecode_operator.plan.slots import Arm


def holds_slots(arms: Mapping[Revision, Arm], stable: Revision) -> bool:
    """Whether any revision but stable holds a slot."""
    return any(not arm.empty for arm in arms.values() if arm.revision != stable)


def give_back(arms: Mapping[Revision, Arm], goal: Goal, route: RouteView | None) -> Move:
    """The next move back. `goal.target` is stable."""
    held = {goal.target: Arm(goal.target, 0), **arms}
    asked = {revision: arm.replicas for revision, arm in held.items()}
    others = sorted((arm for arm in held.values() if arm.revision != goal.target and not arm.empty), key=_by_revision)
    move = _give(held, asked, others, goal, route)
    free = goal.replicas - sum(max(move.replicas[revision], len(arm.slots)) for revision, arm in held.items())
    if free <= 0:
        return move
    taken = {**move.replicas, goal.target: move.replicas[goal.target] + free}
    return replace(move, replicas=taken, blocked=False)


def _by_revision(arm: Arm) -> str:
    return arm.revision


def _give(
    arms: Mapping[Revision, Arm],
    asked: dict[Revision, int],
    others: list[Arm],
    goal: Goal,
    route: RouteView | None,
) -> Move:
    """Workloads shrink by what doesn't serve, and by what minAvailable doesn't need. A revision that keeps nothing
    leaves the route first, all of it at once."""
    spare = serving(arms) - goal.min_available
    after, gone = dict(asked), set[Revision]()
    for arm in others:
        spare, keeps = _keeps(arm, max(spare, 0))
        if keeps == 0 and route is not None and (arm.revision in route.revisions or not route.current):
            gone.add(arm.revision)
            keeps = arm.replicas
        after[arm.revision] = min(arm.replicas, keeps)
    waits = [arm.revision for arm in others if arm.replicas]
    if waits and after == asked and not gone:
        return held_by_min_available(arms, asked, goal)
    waiting = f"Revision {goal.target} takes back the slots of {', '.join(waits)}." if waits else ""
    return Move(after, leaving=frozenset(gone), phase=SWAPPING, waiting=waiting or "Waits until their slots are free.")


def _keeps(arm: Arm, spare: int) -> tuple[int, int]:
    """What is then left to spare, and how many slots the arm keeps."""
    given = min(arm.ready, spare)
    return spare - given, arm.ready - given
