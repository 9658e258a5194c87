"""`rollout.surgeSlots`: a revision's first slots come beside stable's, where there are GPUs for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import promises
import pytest
from builders import IMAGE, OTHER_IMAGE, deployment
from canaries import CanaryFleet, canary
from fleet import Fleet

from specdecode_operator.api import names

TWO = [{"slots": 2, "minDuration": "5m", "maxDuration": "10m"}]


def replacing(surge: int, replicas: int = 4, least: int = 4) -> Fleet:
    """A fleet at rest, just asked for another image."""
    start = deployment().replicas(replicas).behind("edge").set("spec.minAvailable", least)
    fleet = Fleet.of(start.set("spec.rollout", {"surgeSlots": surge}))
    fleet.settle()
    fleet.before_write = partial(promises.check, fleet)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    return fleet


def proving(surge: int, steps: list[dict[str, Any]] | None = None, replicas: int = 8, **more: Any) -> CanaryFleet:
    """The same with a canary."""
    fleet = CanaryFleet.of(canary(replicas, steps or TWO, surgeSlots=surge, **more))
    assert isinstance(fleet, CanaryFleet)
    fleet.settle()
    fleet.before_write = partial(promises.check_canary, fleet)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    return fleet


def watched(fleet: Fleet, step: Callable[[], object], until: Callable[[], bool]) -> tuple[int, int]:
    """Fewest slots that served and most that were asked for, until then."""
    served, asked = [], []
    for _ in range(200):
        step()
        served.append(fleet.serving())
        asked.append(sum(fleet.replicas().values()))
        if until():
            return min(served), max(asked)
    raise AssertionError(f"never: {fleet.obj['status']}")


@pytest.mark.parametrize(("surge", "most"), [(1, 5), (3, 7), (9, 8)])
def test_a_replacement_with_surge_gives_nothing_up_before_the_next_one_serves(surge: int, most: int) -> None:
    fleet = replacing(surge)
    done = lambda: fleet.condition("Progressing")["reason"] == names.REASON_COMPLETE and len(fleet.replicas()) == 1  # noqa: E731
    assert watched(fleet, fleet.round, done) == (4, most)
    fleet.settle()
    assert fleet.obj["status"]["stable"]["image"] == OTHER_IMAGE
    assert sum(fleet.replicas().values()) == 4


def test_a_revision_that_never_gets_ready_keeps_its_surge_and_costs_stable_nothing() -> None:
    fleet = replacing(1)
    fleet.bad_images.add(OTHER_IMAGE)
    fleet.settle()
    assert sorted(fleet.replicas().values()) == [1, 4]
    assert fleet.serving() == 4
    fleet.edit(lambda it: it.image(IMAGE))
    fleet.settle()
    assert list(fleet.replicas().values()) == [4]


def test_an_invalid_spec_takes_no_slot_of_the_surge() -> None:
    fleet = replacing(2)
    fleet.round()
    before = fleet.replicas()
    fleet.edit(lambda it: it.args("--port", "1"))
    fleet.settle()
    assert sum(fleet.replicas().values()) <= max(sum(before.values()), 4)


def test_a_candidate_within_the_surge_costs_stable_no_slot_and_a_fail_restarts_nothing() -> None:
    fleet = proving(2)
    before = set(fleet.pods)
    fleet.until("Measuring")
    assert (fleet.slots(), fleet.slots(IMAGE)) == (2, 8)
    assert sorted(fleet.routed().values()) == [2, 8]
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    assert set(fleet.pods) == before


def test_a_candidate_that_fails_to_serve_gives_stable_none_of_its_surge() -> None:
    fleet = proving(2, [{"slots": 1, "minDuration": "5m"}, {"slots": 2, "minDuration": "5m"}])
    fleet.until("Measuring", "1/2")
    fleet.bad_images.add(OTHER_IMAGE)
    for pod in fleet.pods_of(fleet.obj["status"]["candidate"]["revision"]):
        fleet.set_ready(pod, False)
    for _ in range(25):
        fleet.turn()
        assert fleet.slots(IMAGE) == 8
    assert fleet.run["step"] == "2/2"


def test_slots_beyond_the_surge_are_swapped() -> None:
    fleet = proving(1)
    fleet.until("Measuring")
    assert (fleet.slots(), fleet.slots(IMAGE)) == (2, 7)


def test_a_pass_takes_all_slots_and_gives_the_surge_back() -> None:
    fleet = proving(1)
    fleet.edit(lambda it: it.set("spec.minAvailable", 8))
    fleet.until("Measuring")
    fleet.sees = "Pass(WithinMargin)"
    fleet.until("Promoting")
    done = lambda: "run" not in fleet.obj["status"]  # noqa: E731
    assert watched(fleet, fleet.turn, done) == (8, 9)
    fleet.rest()
    assert list(fleet.replicas().values()) == [8]
    assert fleet.slots() == 8


def test_a_surge_without_gpus_is_said_and_ends_with_stable_as_it_was() -> None:
    fleet = proving(1, [{"slots": 1}])
    fleet.nodes = 8
    before = set(fleet.pods)
    for _ in range(120):
        fleet.turn(60)
        if fleet.run["phase"] == "Ended":
            break
    fleet.rest()
    assert fleet.obj["status"]["verdicts"][-1]["reason"] == "NeverReady"
    assert set(fleet.pods) == before


def test_a_restarted_baseline_goes_with_a_surge() -> None:
    fleet = proving(1, baseline="fresh")
    before = set(fleet.pods)
    fleet.until("Measuring")
    assert (fleet.slots(), fleet.slots(IMAGE)) == (2, 7)
    young = [pod for pod in fleet.pods_of(fleet.stable()) if pod["metadata"]["uid"] not in before]
    assert len(young) == 2


def test_a_fleet_too_small_for_a_swap_is_told_that_a_surge_would_do_and_with_one_it_goes_on() -> None:
    fleet = proving(0, [{"slots": 1}], replicas=2)
    fleet.turn()
    fleet.turn()
    assert "or spec.rollout.surgeSlots to 1" in fleet.condition("Progressing")["message"]
    other = proving(1, [{"slots": 1}], replicas=2)
    other.until("Measuring")
    assert sorted(other.replicas().values()) == [1, 2]


def test_one_replica_is_told_what_would_do_and_a_surge_alone_would_not() -> None:
    fleet = proving(0, [{"slots": 1}], replicas=1)
    fleet.turn()
    fleet.turn()
    said = fleet.condition("Progressing")["message"]
    assert "Raise spec.replicas to 3" in said
    assert "surgeSlots" not in said
    assert fleet.slots() == 0
