"""Slots: what a replica occupies. A pod, or the pods of one LeaderWorkerSet group.

The slot rule, in one place: which slot of a revision is given up next.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from specdecode_operator.plan.observe import DIFFERS, Pod, Revision

NEXT_TO_GO: Final = -1000
"""pod-deletion-cost of the pod whose slot moves next; all others have 0."""


@dataclass(frozen=True)
class Slot:
    """One replica's place, while any pod of it exists."""

    pods: tuple[Pod, ...]
    size: int
    """Pods that it has when complete."""

    @property
    def leader(self) -> Pod:
        """The pod that serves, or would; the first one, should that one be missing."""
        return next((pod for pod in self.pods if pod.serves or pod.taken_out), self.pods[0])

    @property
    def terminating(self) -> bool:
        """Whether it is on its way out but still holds its GPUs."""
        return any(pod.terminating for pod in self.pods)

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        whole = len(self.pods) >= self.size and not self.terminating
        return whole and self.leader.serves and self.leader.ready and self.difference is None

    @property
    def difference(self) -> str | None:
        """What makes a pod of it another than its revision says, in a sentence; None if nothing is known to."""
        return next((pod.verdict.words for pod in self.pods if pod.verdict.kind == DIFFERS), None)

    @property
    def marked(self) -> bool:
        """Whether it was chosen to go next."""
        return self.leader.cost <= NEXT_TO_GO

    def settles_at(self, settle: timedelta) -> datetime | None:
        """When it will have been ready for long enough; None while it isn't ready, routable and attested."""
        since = self.leader.ready_since
        if not self.ready or since is None or not self.leader.routable or not self.leader.verdict.trusted:
            return None
        return since + settle


@dataclass(frozen=True)
class Arm:
    """One revision with its slots and with how many its workload asks for."""

    revision: Revision
    replicas: int
    """spec.replicas of its ReplicaSet or LeaderWorkerSet; 0 without one."""
    slots: tuple[Slot, ...] = ()
    made: bool = True
    """Whether its workload is there: then the API server takes its template."""
    lost: bool = False
    """Neither its workload nor what it was made from is there: it can't grow, and its pods go one by one."""

    @property
    def standing(self) -> tuple[Slot, ...]:
        """Slots that aren't on their way out."""
        return tuple(slot for slot in self.slots if not slot.terminating)

    @property
    def occupied(self) -> int:
        """Slots that it holds or is about to take."""
        return max(self.replicas, len(self.slots))

    @property
    def ready(self) -> int:
        """Slots that serve and will go on to."""
        return self.ready_with(self.replicas)

    @property
    def loss(self) -> int:
        """Serving slots lost by asking for one slot less."""
        return self.ready - self.ready_with(self.replicas - 1)

    def ready_with(self, replicas: int) -> int:
        """Slots that would serve on with so many replicas.

        Of a surplus, the ReplicaSet controller takes the unready ones first; a LeaderWorkerSet those with the highest
        numbers, ready or not.
        """
        if any(slot.leader.index is not None for slot in self.slots):
            return sum(slot.ready for slot in self.standing if (slot.leader.index or 0) < replicas)
        return min(sum(slot.ready for slot in self.standing), replicas)

    @property
    def empty(self) -> bool:
        """Whether it neither has nor wants a slot."""
        return self.replicas == 0 and not self.slots

    def settled(self, settle: timedelta, now: datetime) -> int:
        """Slots that have been ready and routable for long enough."""
        times = (slot.settles_at(settle) for slot in self.standing)
        return sum(at is not None and at <= now for at in times)

    def next_settles(self, settle: timedelta, now: datetime) -> datetime | None:
        """When the next of its ready slots will have settled."""
        times = [at for slot in self.standing if (at := slot.settles_at(settle)) is not None and at > now]
        return min(times, default=None)


def arms(
    replicas: Mapping[Revision, int],
    pods: Iterable[Pod],
    sizes: Mapping[Revision, int],
    made: Container[Revision],
) -> dict[Revision, Arm]:
    """Arms of all revisions that have a workload or a pod.

    `sizes`: pods of a replica, for revisions whose frozen self is there. `made`: revisions whose workload is there.
    """
    groups: dict[tuple[Revision, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((pod.revision, pod.group), []).append(pod)
    slots: dict[Revision, list[Slot]] = {revision: [] for revision in replicas}
    for (revision, _), members in groups.items():
        slots.setdefault(revision, []).append(Slot(tuple(members), sizes.get(revision, 1)))
    return {
        revision: Arm(
            revision,
            replicas.get(revision, 0),
            tuple(held),
            made=revision in made,
            lost=revision not in made and revision not in sizes,
        )
        for revision, held in slots.items()
    }


def next_to_go(arm: Arm, trays: Sequence[str] = ()) -> Slot | None:
    """The slot that the arm gives up next; None if it has none."""
    return next(iter(first_to_go(arm, trays)), None)


def first_to_go(arm: Arm, trays: Sequence[str] = ()) -> list[Slot]:
    """Its slots in the order in which it gives them up: those that don't serve, the one already chosen, those on
    `trays` in their order, the youngest.

    The ReplicaSet controller takes unready pods before it looks at costs, so the first rule is its own. The youngest
    has the coldest caches; names break ties, so that the same state always gives the same choice.
    """
    places = {node: place for place, node in enumerate(trays)}
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(
        arm.standing,
        key=lambda slot: (
            slot.ready,
            not slot.marked,
            places.get(slot.leader.node, len(places)),
            -((slot.leader.ready_since or oldest).timestamp()),
            slot.leader.name,
        ),
    )
