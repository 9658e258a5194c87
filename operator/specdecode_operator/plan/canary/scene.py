"""All that a canary is planned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from specdecode_operator.api.profiles import Profile
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import Owner
from specdecode_operator.plan.canary.facts import Evidence
from specdecode_operator.plan.observe import Json, Pod, Revision
from specdecode_operator.plan.rollout import RouteView
from specdecode_operator.plan.slots import Arm


@dataclass(frozen=True)
class Scene:
    """The object, its arms, its runs' ConfigMaps, and what was found out since."""

    desired: SpecDecodeDeployment
    now: datetime
    owner: Owner
    profile: Profile
    stable: Revision
    wanted: Revision
    """What the spec asks for; stable's own where nothing is to change."""
    arms: Mapping[Revision, Arm]
    frozen: Mapping[Revision, Frozen]
    view: RouteView | None
    """None: there is no route."""
    settle: timedelta
    config_maps: tuple[Json, ...]
    evidence: Evidence | None
    verified_requests: bool = False
    """Whether the API server has seen to it that a request names who wrote it."""

    def arm(self, revision: str) -> Arm:
        """A revision's arm; an empty one if it has none."""
        return self.arms.get(Revision(revision), Arm(Revision(revision), 0))

    def pods(self, revision: str) -> Iterator[Pod]:
        """The pods of a revision that serve, or are to."""
        return (slot.leader for slot in self.arm(revision).standing)

    @property
    def replicas(self) -> int:
        """Slots that the object has."""
        return self.desired.spec.replicas

    @property
    def surge(self) -> int:
        """Slots beyond them that the candidate may hold."""
        return self.desired.spec.rollout.surge_slots

    def stays(self, slots: int) -> int:
        """Slots that stable keeps beside so many of the candidate's."""
        return self.replicas - max(slots - self.surge, 0)

    @property
    def min_available(self) -> int:
        """Slots that must go on serving."""
        return min(self.desired.spec.min_available_or_default, self.replicas)

    @property
    def start_limit(self) -> timedelta:
        """How long a pod of this profile may take to get ready."""
        return timedelta(seconds=self.profile.start_seconds)
