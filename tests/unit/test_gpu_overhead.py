"""What sampling costs: steps and their turns -> a part of a step.  The measurement itself needs a GPU."""

import numpy as np
import pytest
from bench.gpu import overhead

EVERY = 17
HEAD = {"method": "dspark", "every": EVERY, "facts": {"vllm": "0.33.0", "device": "a device"}}


def requests(cost: float, count: int = 40, steps: int = 680) -> list[dict[str, list[float]]]:
    """Of a host that changes its speed every 40 steps and stalls in one of fifty.

    The sampled step takes 9/10 of what the stride pays, the one after it the rest.
    """
    rng = np.random.default_rng(7)
    found = []
    for at in range(count):
        turns = (np.arange(steps) + at) % EVERY
        speed = np.repeat(np.exp(rng.normal(0, 0.25, steps // 40)), 40)
        stalls = np.where(rng.random(steps) < 0.02, 2.0, 1.0)
        paid = 1 + EVERY * cost * (0.9 * (turns == 0) + 0.1 * (turns == 1))
        times = 4e-3 * speed * stalls * paid * np.exp(rng.normal(0, 0.02, steps))
        found.append({"steps": list(times), "turns": list(turns)})
    return found


@pytest.mark.parametrize("cost", [0.0, 0.002, 0.01])
def test_the_cost_is_found_on_a_host_that_changes_its_speed(cost: float) -> None:
    of_turn = overhead.by_turn(requests(cost), EVERY)
    low, high = overhead.interval(of_turn, draws=100)
    assert overhead.cost(of_turn) == pytest.approx(cost, abs=6e-4)
    assert low <= overhead.cost(of_turn) <= high
    assert high - low < 1e-3


@pytest.mark.parametrize(("turn", "found"), [(0, 0.1), (overhead.PAYING - 1, 0.1), (overhead.PAYING, 0.0), (16, 0.0)])
def test_only_turns_that_can_pay_are_counted(turn: int, found: float) -> None:
    of_turn = [np.full(100, 1 + EVERY * 0.1 if at == turn else 1.0) for at in range(EVERY)]
    assert overhead.cost(of_turn) == pytest.approx(found)


def test_a_step_is_beside_those_around_it() -> None:
    steps = [1.0] * 20 + [3.0] + [1.0] * 20
    found = overhead.relative(steps)
    assert len(found) == len(steps) - overhead.AROUND + 1
    assert found[20 - overhead.AROUND // 2] == 3.0
    assert sum(found == 1.0) == len(found) - 1


def test_turns_keep_their_steps_when_the_ends_are_left_out() -> None:
    slow = [
        {"steps": [2.0 if at % EVERY == 3 else 1.0 for at in range(100)], "turns": [at % EVERY for at in range(100)]}
    ]
    means = [float(times.mean()) for times in overhead.by_turn(slow, EVERY)]
    assert means[3] == 2.0
    assert means[:3] + means[4:] == [1.0] * (EVERY - 1)


def test_a_request_shorter_than_the_window_is_left_out() -> None:
    short = {"steps": [1.0] * 5, "turns": [0] * 5}
    assert list(map(len, overhead.by_turn([*requests(0.0, 2), short], EVERY))) == list(
        map(len, overhead.by_turn(requests(0.0, 2), EVERY))
    )


def test_the_sentence_has_the_figures() -> None:
    said = overhead.text(HEAD, requests(0.002, 4))
    assert "vLLM 0.33.0, dspark, a device: sampling each 17th step costs 0." in said
    assert f"from {4 * (680 - overhead.AROUND + 1)} steps" in said
    assert "0: +" in said
