"""How refreshed steps are compared with built ones; that they are alike only a GPU shows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench.gpu import engine, replay


class Buffer(np.ndarray[Any, Any]):
    """The few methods of a tensor that are used."""

    def fill_(self, value: int) -> None:
        self.fill(value)

    def clone(self) -> "Buffer":
        return self.copy()


class State:
    """A model state whose refresh writes `refreshed` and whose build writes 1."""

    def __init__(self, refreshed: int) -> None:
        self.states, self.counts = (np.zeros(3, dtype=int).view(Buffer) for _ in range(2))
        builder = SimpleNamespace(state_indices_tensor_d=self.states, decode_num_accepted_tokens=self.counts)
        self.target_replay = SimpleNamespace(applies=True, states=SimpleNamespace(builders=[builder]))
        self.refreshed = refreshed

    def prepare_attn(self, *, prefills: bool = False) -> dict[str, int]:
        built = prefills or not self.target_replay.applies
        self.states[:2] = self.counts[:2] = 1 if built else self.refreshed
        return {"layer": 1} if built else {}


@pytest.mark.parametrize(("refreshed", "differing"), [(1, 0), (2, 1)])
def test_a_refreshed_step_is_built_too(refreshed: int, differing: int) -> None:
    state, steps = State(refreshed), replay.Steps()
    with engine.in_place([replay.compared(state, steps)]):
        assert state.prepare_attn() == {}
        assert state.prepare_attn(prefills=True) == {"layer": 1}
    assert steps == replay.Steps(refreshed=1, built=1, differing=differing)
    assert state.target_replay.applies


def test_a_row_that_only_one_of_them_writes_is_a_difference() -> None:
    state, steps = State(1), replay.Steps()
    state.prepare_attn()
    whole = state.prepare_attn

    def less(**asked: Any) -> dict[str, int]:
        done = whole(**asked)
        if not done:
            state.counts[1] = replay.WIPED
        return done

    state.prepare_attn = less  # type: ignore[method-assign]
    with engine.in_place([replay.compared(state, steps)]):
        state.prepare_attn()
    assert steps.differing == 1
