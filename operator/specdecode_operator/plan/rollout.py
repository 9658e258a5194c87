"""Replace: the target takes one slot after another, never below minAvailable, and without surge if none is asked for.

Before the first swap the target's workload is made with no slot: the API server looks at its template then, and what
it refuses costs nobody a slot.

One swap is: the route leaves a revision whose last slot goes -> the slot's pod is marked -> its workload shrinks by
one -> the pod is really gone, so its GPUs are free -> the target's workload grows by one -> its pod is ready for
settleSeconds and routed to -> next. Where a swap stands is read from the children alone, so it goes on after a
restart at any point:

* slots asked for < wanted: a slot is in transit. It goes to the target, unless the target has a pod that isn't ready,
  or no workload; then it goes back to the stable revision, which is known to serve.
* slots asked for = wanted: the next swap may begin, once all of the target's slots have settled.
* slots asked for > wanted: somebody scaled down.

With a surge, so many slots more may be asked for while the target takes over. They are its first ones, so nothing is
given up for those; then a swap begins with a slot beyond what is wanted rather than one below.

A changed spec is a changed target: slots of revisions that are neither target nor stable go first. A revert makes
stable the target, and while the API server refuses the target, slots go where a revert would send them. So one rule
covers replacing, reverting and scaling at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from specdecode_operator.plan.observe import Revision
from specdecode_operator.plan.slots import Arm, Slot, next_to_go

SWAPPING: Final = "Swapping"
SETTLING: Final = "Settling"


@dataclass(frozen=True)
class Goal:
    """What the fleet should come to."""

    target: Revision
    stable: Revision
    replicas: int
    min_available: int
    settle: timedelta
    swap: bool = True
    """False while the spec is invalid: replicas follow, revisions stay as they are."""
    untried: bool = False
    """The target has yet to be frozen, so nobody knows whether the API server takes its workload."""
    way_back: bool = False
    """There is a stable revision besides the target, and it can have slots even if it has none now."""
    slots: int | None = None
    """How many the target may hold beside stable; None: all."""
    surge: int = 0
    """Slots beyond `replicas` that it may hold until it has taken over."""
    trays: tuple[str, ...] = ()
    """Nodes whose slots go first."""

    def room(self, target: Arm) -> int:
        """Slots that the target may still take."""
        return self.most - target.replicas

    @property
    def most(self) -> int:
        """Slots that the target is to come to."""
        return self.replicas if self.slots is None else self.slots

    def ceiling(self, total: int) -> int:
        """Slots that all revisions may hold together; they hold `total` now."""
        beyond = min(self.surge, self.most)
        return self.replicas + (beyond if self.swap else min(beyond, max(total - self.replicas, 0)))


@dataclass(frozen=True)
class RouteView:
    """What the live route does. `current`: the gateway has accepted it as it is now."""

    revisions: frozenset[Revision]
    current: bool
    waits_for: str = ""
    """Who has yet to accept it, for people."""


@dataclass(frozen=True)
class Move:
    """The next step, if any, and what is awaited after it."""

    replicas: Mapping[Revision, int]
    """What each arm's workload should ask for now."""
    mark: Slot | None = None
    """The slot to mark as the next to go; its workload shrinks in a later plan, when the mark has been seen."""
    leaving: frozenset[Revision] = frozenset()
    """Revisions that must not be in the route, though they have a slot."""
    phase: str = ""
    waiting: str = ""
    blocked: bool = False
    """Nothing will move until somebody changes the spec."""
    again: datetime | None = None
    done: bool = False
    """The target holds every slot, and all have settled: it is the stable revision now."""


def next_move(arms: Mapping[Revision, Arm], goal: Goal, route: RouteView | None, now: datetime) -> Move:
    """The next move. `route` is None if no route is wanted or possible."""
    if heir(arms, goal) != goal.target:
        return _gone_back(arms, goal, route, now)
    return _towards(arms, goal, route, now)


def heir(arms: Mapping[Revision, Arm], goal: Goal) -> Revision:
    """Where slots go: to the target, or back to the stable revision while the API server refuses the target."""
    target = arms.get(goal.target, Arm(goal.target, 0, made=False))
    is_refused = not goal.untried and not target.made and target.empty
    return goal.stable if goal.way_back and is_refused else goal.target


def _gone_back(arms: Mapping[Revision, Arm], goal: Goal, route: RouteView | None, now: datetime) -> Move:
    """The move while the API server refuses the target: as if the stable revision were asked for."""
    move = _towards(arms, replace(goal, target=goal.stable, slots=None, surge=0, way_back=False), route, now)
    waiting = move.waiting or _until_made(move.replicas, goal).waiting
    return replace(move, waiting=waiting, phase=SWAPPING, done=False)


def _towards(arms: Mapping[Revision, Arm], goal: Goal, route: RouteView | None, now: datetime) -> Move:
    held = dict(arms)
    held.setdefault(goal.target, Arm(goal.target, 0, made=False))
    others = [arm for arm in held.values() if arm.revision != goal.target and not arm.empty]
    asked = {arm.revision: arm.replicas for arm in held.values()}
    if goal.replicas == 0:
        return _to_zero(held, asked, route)
    if not others:
        return _alone(held[goal.target], asked, goal, now)
    total = sum(asked.values())
    ceiling = goal.ceiling(total)
    if total > ceiling:
        return _scale_down(held, asked, goal, route)
    filled = _fill(held, asked, goal, ceiling) if total < ceiling else None
    return filled or _swap(held, asked, goal, route, now)


def serving(arms: Mapping[Revision, Arm]) -> int:
    """Slots that serve and will go on to."""
    return sum(arm.ready for arm in arms.values())


def _to_zero(arms: Mapping[Revision, Arm], asked: dict[Revision, int], route: RouteView | None) -> Move:
    zero = dict.fromkeys(asked, 0)
    everyone = frozenset(arms)
    if asked == zero:
        return Move(zero, done=True)
    if route is not None and (route.revisions or not route.current):
        return Move(
            asked, leaving=everyone, waiting=f"Waits for {route.waits_for} to take all revisions out of the route."
        )
    return Move(zero, leaving=everyone)


def _alone(target: Arm, asked: dict[Revision, int], goal: Goal, now: datetime) -> Move:
    if goal.untried and goal.way_back:
        return _until_made(asked, goal)
    return Move(
        {**asked, goal.target: goal.replicas},
        done=target.replicas == goal.replicas and target.settled(goal.settle, now) >= goal.replicas,
        again=target.next_settles(goal.settle, now),
    )


def _fill(arms: Mapping[Revision, Arm], asked: dict[Revision, int], goal: Goal, ceiling: int) -> Move | None:
    """Give free slots away; a slot is free when no pod holds its GPUs. None: what is free is a surge for nobody."""
    free = ceiling - sum(arm.occupied for arm in arms.values())
    if free <= 0:
        going = [slot.leader.name for arm in arms.values() for slot in arm.slots if slot.terminating]
        what = f"pod {going[0]} is gone and its slot is free" if going else "the pod of the freed slot is gone"
        return Move(asked, phase=SWAPPING, waiting=f"Waits until {what}.")
    recipient = _recipient(arms, goal)
    if recipient is None:
        return _until_made(asked, goal)
    given = _given(asked, recipient, free, goal)
    return Move(given, phase=SWAPPING) if given != asked else None


def _given(asked: dict[Revision, int], recipient: Arm, free: int, goal: Goal) -> dict[Revision, int]:
    """Free slots to the recipient; what is more than the target may hold, to stable.

    Others get no slot of a surge. But where the target is to stay at fewer than all, its slots of one cost them none.
    """
    taken, whose = 0, recipient.revision
    if whose == goal.target:
        taken, whose = min(free, max(goal.room(recipient), 0)), goal.stable
    given = {**asked, goal.target: asked[goal.target] + taken}
    costs = max(given[goal.target] - (goal.surge if goal.slots is not None else 0), 0)
    others = sum(given.values()) - given[goal.target]
    rest = max(min(free - taken, goal.replicas - costs - others), 0)
    return {**given, whose: given.get(whose, 0) + rest} if rest else given


def _recipient(arms: Mapping[Revision, Arm], goal: Goal) -> Arm | None:
    """Who gets free slots: the target while all its slots serve, else stable, else whoever serves most.

    None while that can't be told: a target without a workload may be one that the API server refuses.
    """
    target = arms[goal.target]
    proven = [arm for arm in arms.values() if arm.ready and not arm.lost and arm.revision != goal.target]
    if target.made and (target.ready == target.replicas or not proven):
        return target
    if not target.made and (goal.untried or not proven):
        return None
    return max(proven, key=lambda arm: (arm.revision == goal.stable, arm.ready, arm.revision))


def _scale_down(arms: Mapping[Revision, Arm], asked: dict[Revision, int], goal: Goal, route: RouteView | None) -> Move:
    """One slot at a time: what doesn't serve first, whosever it is, then revisions that are to go, then the target."""
    floor = min(goal.min_available, goal.replicas)
    target = arms[goal.target]
    spare = serving(arms) > floor
    if goal.slots is not None and goal.room(target) < 0 and (spare or not target.loss):
        return _shrink(target, asked, route)
    held = [arm for arm in (*_sources(arms, goal), target) if arm.replicas]
    chosen = next((arm for arm in held if not arm.loss), None)
    if chosen is None and spare:
        chosen = next(iter(held), None)
    if chosen is None:
        return Move(asked, waiting=f"Waits until more than {floor} slots serve before it scales down.")
    return _shrink(chosen, asked, route)


def _swap(
    arms: Mapping[Revision, Arm], asked: dict[Revision, int], goal: Goal, route: RouteView | None, now: datetime
) -> Move:
    target = arms[goal.target]
    settled = target.settled(goal.settle, now)
    sources = [arm for arm in _sources(arms, goal) if arm.replicas]
    if settled < target.replicas:
        return Move(
            asked,
            phase=SETTLING,
            waiting=f"{settled} of {target.replicas} slots of revision {target.revision} have settled.",
            again=target.next_settles(goal.settle, now),
        )
    if not sources:
        return Move(asked, done=True, phase=SETTLING)
    if not goal.swap or (goal.slots is not None and goal.room(target) <= 0):
        return Move(asked)
    if not target.made:
        return _until_made(asked, goal)
    source = next((arm for arm in sources if not arm.loss), sources[0])
    if route is not None and target.replicas and not (target.revision in route.revisions and route.current):
        waiting = f"Waits for {route.waits_for} to accept the route."
        return Move(asked, leaving=_on_its_way_out(source, route), phase=SETTLING, waiting=waiting)
    if source.loss and serving(arms) - 1 < goal.min_available:
        return held_by_min_available(arms, asked, goal)
    slot = next_to_go(source, goal.trays)
    if source.loss and slot is not None and slot.size == 1 and not slot.marked and source.replicas > 1:
        return Move(asked, mark=slot, phase=SWAPPING)
    return _shrink(source, asked, route)


def _until_made(asked: Mapping[Revision, int], goal: Goal) -> Move:
    """No slot for a target whose workload isn't there, nor one given up for it."""
    return Move(asked, phase=SWAPPING, waiting=f"Waits until the API server has taken revision {goal.target}.")


def held_by_min_available(arms: Mapping[Revision, Arm], asked: dict[Revision, int], goal: Goal) -> Move:
    """No slot moves, since one more that serves would be lost."""
    if goal.min_available >= goal.replicas:
        return Move(
            asked,
            phase=SWAPPING,
            blocked=True,
            waiting=f"spec.minAvailable: found {goal.min_available} with {goal.replicas} replicas, so no slot may be "
            f"given up; allowed: at most {goal.replicas - 1} for a replacement; lower it or raise spec.replicas.",
        )
    return Move(
        asked,
        phase=SWAPPING,
        waiting=f"{serving(arms)} slots serve and minAvailable is {goal.min_available}: waits until one more is ready.",
    )


def _shrink(arm: Arm, asked: dict[Revision, int], route: RouteView | None) -> Move:
    """Take one slot, after the route has left a revision that would have none."""
    if arm.replicas > 1 or route is None:
        return Move({**asked, arm.revision: arm.replicas - 1}, phase=SWAPPING)
    leaving = frozenset({arm.revision})
    if arm.revision in route.revisions or not route.current:
        return Move(
            asked,
            leaving=leaving,
            phase=SWAPPING,
            waiting=f"Waits for {route.waits_for} to take revision {arm.revision} out of the route.",
        )
    return Move({**asked, arm.revision: 0}, leaving=leaving, phase=SWAPPING)


def _on_its_way_out(source: Arm, route: RouteView) -> frozenset[Revision]:
    """A revision that the route has left for its last slot to go stays out while the gateway takes that in."""
    return frozenset({source.revision} if source.replicas == 1 and source.revision not in route.revisions else ())


def _sources(arms: Mapping[Revision, Arm], goal: Goal) -> list[Arm]:
    """Revisions that give slots up, in order: those that nobody asks for any more, then stable."""
    others = [arm for arm in arms.values() if arm.revision != goal.target]
    return sorted(others, key=lambda arm: (arm.revision == goal.stable, arm.revision))
