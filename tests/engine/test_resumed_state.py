"""Where a request that hits the prefix cache finds the state of its Mamba layers, from the releases' own files."""

import ast
from types import SimpleNamespace

import pytest
import wheels

from specdecode_engine import manifests, overlay
from specdecode_engine.manifests import STOCK

pytestmark = pytest.mark.wheels

PATH = "vllm/v1/worker/gpu/model_states/mamba_hybrid.py"
MAMBA_BLOCK, SMALLEST_BLOCK = 256, 64
SLOT = 3


class Cell:
    """One element of a tensor."""

    def fill_(self, value: int) -> None:
        self.value = value


def patched() -> str:
    """The file of 0.30.0 with the patch of `prefix-cache-tail` alone."""
    stock = wheels.source("0.30.0", PATH).encode()
    return overlay.contents(manifests.load("0.30.0"), PATH, stock, STOCK, frozenset({"prefix-cache-tail"})).decode()


def seeded_column(source: str, computed_tokens: int) -> int:
    """The column of the block table that `add_request` in `source` seeds for a request of so many cached tokens.

    Nothing of our package is there when it runs: the column hangs on no switch.
    """
    (state,) = [
        n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef) and n.name == "MambaHybridModelState"
    ]
    (method,) = [n for n in state.body if isinstance(n, ast.FunctionDef) and n.name == "add_request"]
    method.returns = None
    for argument in method.args.args:
        argument.annotation = None
    state.bases, state.body = [ast.Name("Default", ast.Load())], [method]
    made = {"Default": type("Default", (), {"add_request": lambda *_: None})}
    exec(compile(ast.fix_missing_locations(ast.Module([state], [])), PATH, "exec"), made)
    model_state = made["MambaHybridModelState"]()
    model_state.__dict__.update(
        _align_mode=True,
        cache_config=SimpleNamespace(block_size=SMALLEST_BLOCK, mamba_block_size=MAMBA_BLOCK),
        num_accepted_tokens_gpu={SLOT: Cell()},
        _mamba_state_idx_gpu={SLOT: Cell()},
    )
    model_state.add_request(SLOT, SimpleNamespace(num_computed_tokens=computed_tokens))
    return int(model_state._mamba_state_idx_gpu[SLOT].value)


@pytest.mark.parametrize(("cached", "column"), [(0, -1), (256, 0), (512, 1), (2560, 9)])
def test_a_hit_goes_on_from_the_state_of_its_last_cached_block(cached: int, column: int) -> None:
    assert seeded_column(patched(), cached) == column
    assert seeded_column(wheels.source("0.33.0", PATH), cached) == column


def test_the_release_counts_that_column_in_the_smallest_block() -> None:
    assert seeded_column(wheels.source("0.30.0", PATH), 512) == 7
