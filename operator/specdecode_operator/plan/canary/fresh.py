"""Stable slots that are restarted for a run (`rollout.baseline: fresh`): what a short uptime costs, they pay too.

One with each slot of the candidate, by turns, so that the two are of one age: the candidate takes a slot, a stable one
is restarted, the candidate takes the next. A restart is the deletion of the slot's pod; the workload makes another.

The record lists the pods that served before, and whichever isn't among them is young. So a restart is never repeated,
whatever the clocks say, and a pod that something else replaced counts: it is as young.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specdecode_operator.gates.run import RunStep
from specdecode_operator.plan.canary.record import Record
from specdecode_operator.plan.canary.scene import Scene
from specdecode_operator.plan.rollout import serving
from specdecode_operator.plan.slots import Arm, Slot, next_to_go

RESTARTS: Final = "restarts a stable slot, for a slot of the candidate to be compared with one of its age"


def wanted(step: RunStep) -> int:
    """Young stable slots that the step compares with; 0 where all are compared."""
    return step.plan.fresh.pods if step.plan.fresh else 0


def young(it: Scene, record: Record) -> Arm:
    """The stable arm with nothing but its young slots."""
    arm, old = it.arm(record.stable), frozenset(record.before)
    return replace(arm, slots=tuple(slot for slot in arm.standing if slot.leader.uid not in old))


def serve(it: Scene, record: Record, step: RunStep) -> bool:
    """Whether as many young slots as the step needs have settled."""
    return not wanted(step) or young(it, record).settled(it.settle, it.now) >= wanted(step)


def may_hold(it: Scene, record: Record, step: RunStep) -> int:
    """Slots that the candidate may have by now: one more than there are young stable ones, and none back."""
    if not wanted(step):
        return step.slots
    turn = young(it, record).settled(it.settle, it.now) + 1
    return min(step.slots, max(it.arm(record.candidate).replicas, turn))


def trays_to_go(it: Scene, record: Record, trays: tuple[str, ...]) -> tuple[str, ...]:
    """The plan's trays without those of young slots, which stay."""
    stay = {slot.leader.node for slot in young(it, record).slots} if record.before else frozenset[str]()
    return tuple(node for node in trays if node not in stay)


def next_restart(it: Scene, record: Record, step: RunStep, trays: tuple[str, ...]) -> Slot | None:
    """The slot to restart now; None if none is due, or while anything else is on its way."""
    stable, candidate, already = it.arm(record.stable), it.arm(record.candidate), young(it, record)
    due = len(already.slots) < min(wanted(step), candidate.replicas)
    if not due or not _all_serve(it, stable, candidate) or serving(it.arms) - 1 < it.min_available:
        return None
    old = tuple(slot for slot in stable.standing if slot not in already.slots)
    numbered = [(slot.leader.index, slot) for slot in old if slot.leader.index is not None]
    return min(numbered, key=_by_number)[1] if numbered else next_to_go(replace(stable, slots=old), trays)


def _by_number(slot: tuple[int, Slot]) -> int:
    """A LeaderWorkerSet gives up those with the highest numbers, so the lowest stay longest."""
    return slot[0]


def _all_serve(it: Scene, stable: Arm, candidate: Arm) -> bool:
    """Whether the two arms have all slots, and each of them has settled, in the route if there is one."""
    arms = (stable, candidate)
    settled = all(arm.settled(it.settle, it.now) == arm.replicas == len(arm.slots) for arm in arms)
    held = sum(arm.replicas for arm in it.arms.values()) - candidate.replicas
    whole = held == stable.replicas == it.stays(candidate.replicas)
    routed = it.view is None or (it.view.current and it.view.revisions >= {arm.revision for arm in arms})
    return settled and whole and routed
