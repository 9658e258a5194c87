"""Slots: which goes next, what would be lost by it, and when one has settled."""

from datetime import UTC, datetime, timedelta

import pytest

from specdecode_operator.plan.observe import Pod, Revision
from specdecode_operator.plan.slots import NEXT_TO_GO, Arm, Slot, next_to_go

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
REVISION = Revision("0123456789")


def pod(name: str, *, ready: bool = True, age: int = 60, cost: int = 0, index: int | None = None, **more: bool) -> Pod:
    since = NOW - timedelta(seconds=age)
    return Pod(
        name=name,
        uid=name,
        revision=REVISION,
        group=name,
        index=index,
        serves=more.get("serves", True),
        ready=ready,
        ready_since=since if ready else None,
        routable=more.get("routable", ready),
        terminating=more.get("terminating", False),
        cost=cost,
        created=since,
        raw={},
    )


def arm(*pods: Pod, replicas: int | None = None) -> Arm:
    return Arm(REVISION, len(pods) if replicas is None else replicas, tuple(Slot((each,), 1) for each in pods))


@pytest.mark.parametrize(
    ("pods", "goes"),
    [
        ([pod("old", age=100), pod("young", age=10)], "young"),
        ([pod("young", age=10), pod("unready", ready=False)], "unready"),
        ([pod("young", age=10), pod("marked", age=100, cost=NEXT_TO_GO)], "marked"),
        ([pod("unready", ready=False), pod("marked", cost=NEXT_TO_GO)], "unready"),
        ([pod("b"), pod("a")], "a"),
        ([pod("leaving", terminating=True, ready=False), pod("staying")], "staying"),
    ],
)
def test_the_slot_rule(pods: list[Pod], goes: str) -> None:
    chosen = next_to_go(arm(*pods))
    assert chosen
    assert chosen.leader.name == goes


def test_an_arm_without_a_standing_slot_has_none_to_give() -> None:
    assert next_to_go(arm(pod("leaving", terminating=True))) is None


def test_taking_an_unready_slot_costs_nothing() -> None:
    assert arm(pod("a"), pod("b", ready=False)).loss == 0
    assert arm(pod("a"), pod("b")).loss == 1


def test_a_slot_that_is_asked_for_but_not_there_yet_costs_nothing() -> None:
    assert arm(pod("a"), replicas=2).loss == 0


def test_a_surplus_that_the_controller_has_yet_to_take_serves_no_more() -> None:
    assert arm(pod("a"), pod("b"), pod("c"), replicas=2).ready == 2


def test_groups_go_by_their_numbers_ready_or_not() -> None:
    groups = arm(pod("first", ready=False, index=0), pod("last", index=1))
    assert groups.ready == 1
    assert groups.loss == 1


def test_a_slot_settles_once_it_has_been_ready_and_routable_for_long_enough() -> None:
    settle = timedelta(seconds=30)
    held = arm(pod("settled", age=30), pod("fresh", age=20), pod("unlisted", age=90, routable=False))
    assert held.settled(settle, NOW) == 1
    assert held.next_settles(settle, NOW) == NOW + timedelta(seconds=10)


def test_a_replica_over_nodes_is_ready_only_when_it_is_complete() -> None:
    leader, follower = pod("leader", index=0), pod("follower", ready=False, serves=False, index=0)
    assert not Slot((leader,), 2).ready
    assert Slot((follower, leader), 2).ready
    assert Slot((follower, leader), 2).leader is leader
