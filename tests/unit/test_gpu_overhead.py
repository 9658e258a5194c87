"""What telemetry costs: pairs of requests -> a ratio.  The measurement itself needs a GPU."""

from itertools import islice

import pytest
from bench.gpu import overhead

HEAD = {"method": "dspark", "facts": {"vllm": "0.33.0", "device": "a device"}}


def requests(pairs: int, *, cost: float) -> list[dict[str, object]]:
    """Of a machine that becomes slower all the time; each 17th step with telemetry costs 17 times `cost` more."""

    def steps(at: int, on: bool) -> list[float]:
        base = 4e-3 * (1 + at / 1000)
        return [base * (1 + 17 * cost * (on and step % 17 == 0)) for step in range(340)]

    return [{"on": on, "steps": steps(at, on)} for at, on in enumerate(islice(overhead.order(1), 2 * pairs))]


def test_every_pair_has_both_in_either_order() -> None:
    asked = list(islice(overhead.order(1), 200))
    firsts = asked[::2]
    assert [not on for on in firsts] == asked[1::2]
    assert 30 < sum(firsts) < 70


@pytest.mark.parametrize("cost", [0.0, 0.002])
def test_the_cost_of_a_step_is_found_on_a_machine_that_drifts(cost: float) -> None:
    found = overhead.cost(requests(100, cost=cost))
    assert found is not None
    assert found.interval is not None
    assert found.ratio == pytest.approx(1 + cost, abs=3e-4)
    assert found.interval[0] < 1 + cost < found.interval[1]
    assert found.sweeps == 100


def test_a_request_without_its_other_half_is_left_out() -> None:
    asked = requests(3, cost=0.0)
    found = overhead.cost(asked[:-1])
    assert found is not None
    assert found.sweeps == 2


def test_the_sentence_has_the_figures() -> None:
    said = overhead.text(HEAD, requests(50, cost=0.002))
    assert "vLLM 0.33.0, dspark, a device" in said
    assert "1.00" in said
    assert "50 pairs" in said


def test_too_few_requests_are_said_to_be() -> None:
    assert overhead.text(HEAD, requests(1, cost=0.0)) == "2 requests are too few to compare."
