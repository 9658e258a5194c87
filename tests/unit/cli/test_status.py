"""What `kubectl-specdecode status` prints of an object and its canary's newest look."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from canaries import changed

from specdecode_operator.api import names
from specdecode_operator.build import runrecord
from specdecode_operator.build.owner import Owner
from specdecode_operator.cli.status import HALF, bar, lines


def looks(*lines: dict[str, Any]) -> bytes:
    return gzip.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode(), mtime=0)


def recorded(packed: dict[str, bytes]) -> dict[str, Any]:
    return runrecord.build(Owner("demo", "team", "uid"), "r", {}, packed)


def gate(**changes: Any) -> dict[str, Any]:
    return {"gate": "acceptance", "margin": 0.02, "estimate": 0.005, "interval": [-0.01, 0.02], **changes}


def test_a_bar_has_its_interval_between_the_margins() -> None:
    drawn = bar(gate())
    cells = drawn[drawn.index("[") + 1 : drawn.index("]")]
    assert cells == "        |   ====:=o=====|        "
    assert len(cells) == 2 * HALF + 1
    assert "+0.50% (-1.00% to +2.00%), margin 2%" in drawn


def test_what_is_far_beyond_the_margin_stays_within_the_bar() -> None:
    drawn = bar(gate(estimate=0.9, interval=[0.8, 1.0]))
    assert drawn[drawn.index("]") - 1] == "o"


def test_without_a_bound_the_bar_shows_the_margin_alone() -> None:
    assert "|" in bar(gate(estimate=None, interval=None))
    assert "unknown" in bar(gate(estimate=None, interval=None))


def test_the_newest_look_is_the_last_of_the_newest_step() -> None:
    packed = {
        runrecord.looks_file(0): looks({"window": 10}, {"window": 11}),
        runrecord.looks_file(1): looks({"window": 10}, {"window": 12}),
    }
    assert runrecord.newest_look(recorded(packed))["window"] == 12
    assert runrecord.newest_look({}) == {}


def test_a_record_that_unpacks_without_end_says_nothing() -> None:
    packed = gzip.compress(b" " * (runrecord.MOST_UNPACKED + 1) + b'\n{"window": 1}', 1, mtime=0)
    assert runrecord.newest_look(recorded({runrecord.looks_file(0): packed})) == {}


@pytest.mark.parametrize(
    "packed",
    [b"", b"no gzip", looks({})[:-9], looks() + b"x", gzip.compress(b"[1]", mtime=0), gzip.compress(b"{", mtime=0)],
)
def test_a_record_that_somebody_has_spoilt_says_nothing(packed: bytes) -> None:
    assert runrecord.newest_look(recorded({runrecord.looks_file(0): packed})) == {}
    assert runrecord.newest_look({"binaryData": {runrecord.looks_file(0): "?"}}) == {}


def test_a_canary_is_told_with_its_arms_and_what_is_next() -> None:
    fleet = changed()
    fleet.until("Measuring", "2/2")
    told = "\n".join(lines(fleet.obj, {"gates": [gate()]}))
    assert f"stable    {fleet.stable()} (0.33.0): 6 slots, 6 ready, weight 6" in told
    assert "2 slots, 2 ready, weight 2" in told
    assert f"run {fleet.run['id']}: step 2/2, Measuring" in told
    assert "acceptance " in told
    assert "next: a look follows each window" in told
    assert f"{names.CONDITION_READY}=True" in told


def test_an_object_that_has_no_run_is_told_without_one() -> None:
    fleet = changed()
    fleet.obj["status"].pop("run", None)
    told = "\n".join(lines(fleet.obj, {}))
    assert "run" not in told
    assert "next" not in told
