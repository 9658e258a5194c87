"""The state of Mamba layers on a CPU: a step goes on where the accepted drafts of the last one ended."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm.model_executor.layers.mamba.ops.cpu import mamba_ssm
from vllm.v1.attention.backends.utils import NULL_BLOCK_ID

HEADS, DIM, STATE, GROUPS = 4, 8, 16, 2
SEQUENCES, DRAFTS = 2, 3
CLOSE = {"atol": 1e-4, "rtol": 1e-4}

pytestmark = pytest.mark.skipif(
    not hasattr(mamba_ssm, "selective_state_update_speculative"), reason="only images/engine-cpu has this patch"
)


@dataclass(frozen=True)
class Tokens:
    """What a layer is given of a row of tokens."""

    x: torch.Tensor
    """[tokens, heads, dim]"""
    dt: torch.Tensor
    """[tokens, heads, dim], of one value a head, as the mixer expands it"""
    B: torch.Tensor
    """[tokens, groups, state]"""
    C: torch.Tensor

    def __getitem__(self, rows: slice) -> "Tokens":
        return Tokens(self.x[rows], self.dt[rows], self.B[rows], self.C[rows])

    def then(self, other: "Tokens") -> "Tokens":
        return Tokens(*(torch.cat([getattr(self, name), getattr(other, name)]) for name in vars(self)))


@dataclass(frozen=True)
class Layer:
    A: torch.Tensor
    D: torch.Tensor
    dt_bias: torch.Tensor


def tokens(count: int, gen: torch.Generator) -> Tokens:
    return Tokens(
        torch.randn(count, HEADS, DIM, generator=gen),
        torch.randn(count, HEADS, 1, generator=gen).expand(-1, -1, DIM),
        torch.randn(count, GROUPS, STATE, generator=gen),
        torch.randn(count, GROUPS, STATE, generator=gen),
    )


def layer(gen: torch.Generator) -> Layer:
    return Layer(
        A=-torch.rand(HEADS, 1, 1, generator=gen).expand(-1, DIM, STATE),
        D=torch.randn(HEADS, 1, generator=gen).expand(-1, DIM),
        dt_bias=torch.randn(HEADS, 1, generator=gen).expand(-1, DIM),
    )


def reference(of: Layer, given: Tokens, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(outputs, state after the last token) of the recurrence in float64, token by token, head by head."""
    state, outputs = state.double(), torch.empty(given.x.shape, dtype=torch.float64)
    for at in range(len(given.x)):
        for head in range(HEADS):
            group = head // (HEADS // GROUPS)
            dt = torch.nn.functional.softplus(given.dt[at, head].double() + of.dt_bias[head])
            fed = torch.outer(dt * given.x[at, head], given.B[at, group].double())
            state[head] = state[head] * torch.exp(of.A[head] * dt[:, None]) + fed
            outputs[at, head] = state[head] @ given.C[at, group].double() + of.D[head] * given.x[at, head]
    return outputs, state


def step(
    of: Layer,
    rows: list[Tokens],
    states: torch.Tensor,
    *,
    sources: torch.Tensor,
    targets: torch.Tensor,
    accepted: Sequence[int],
) -> list[torch.Tensor]:
    """The outputs of one step of the engine's own function, sequence by sequence."""
    flat = rows[0]
    for other in rows[1:]:
        flat = flat.then(other)
    lengths = [len(row.x) for row in rows]
    out = torch.full_like(flat.x, torch.nan)
    mamba_ssm.selective_state_update(
        states,
        flat.x,
        flat.dt,
        of.A,
        flat.B,
        flat.C,
        of.D,
        dt_bias=of.dt_bias,
        dt_softplus=True,
        state_batch_indices=sources,
        dst_state_batch_indices=targets,
        null_block_id=NULL_BLOCK_ID,
        out=out,
        num_accepted_tokens=torch.tensor(accepted, dtype=torch.int32),
        cu_seqlens=torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32),
    )
    return list(out.split(lengths))


def setting(seed: int) -> tuple[torch.Generator, Layer, torch.Tensor, torch.Tensor]:
    """(generator, layer, states, slots): states of [null block and slots], slots [place, sequence, token of a step]."""
    gen = torch.Generator().manual_seed(seed)
    slots = torch.arange(1, 1 + 2 * SEQUENCES * (1 + DRAFTS), dtype=torch.int32)
    states = torch.randn(1 + len(slots), HEADS, DIM, STATE, generator=gen)
    return gen, layer(gen), states, slots.reshape(2, SEQUENCES, 1 + DRAFTS)


@given(
    accepted=st.lists(st.tuples(*[st.integers(1, 1 + DRAFTS)] * SEQUENCES), min_size=2, max_size=5),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=40)
def test_rejected_drafts_leave_no_trace(accepted: list[tuple[int, ...]], seed: int) -> None:
    """Of the tokens fed to each sequence in each step so many are its own, the rest are drafts that are rejected.

    Every second step goes on in other slots, as at the end of a block; those it came from may be cached and stay.
    """
    gen, of, states, (here, spare) = setting(seed)
    own = [tokens(sum(counts), gen) for counts in zip(*accepted, strict=True)]
    right = [reference(of, own[row], states[here[row, 0]])[0] for row in range(SEQUENCES)]
    done, before = [0] * SEQUENCES, (1,) * SEQUENCES
    for number, taken in enumerate(accepted):
        now = [slice(start, start + count) for start, count in zip(done, taken, strict=True)]
        fed = [row[at].then(tokens(1 + DRAFTS - len(row[at].x), gen)) for row, at in zip(own, now, strict=True)]
        targets, kept = (spare if number % 2 else here), states[here].clone()
        outputs = step(of, fed, states, sources=here, targets=targets, accepted=before)
        for row, at in enumerate(now):
            torch.testing.assert_close(outputs[row][: taken[row]].double(), right[row][at], **CLOSE)
        if targets is spare:
            assert torch.equal(states[here], kept)
            here, spare = spare, here
        done, before = [at.stop for at in now], taken


@pytest.mark.parametrize("lengths", [(1 + DRAFTS, 1), (2, 1 + DRAFTS)])
def test_the_state_after_each_token_is_in_the_slot_of_that_token(lengths: tuple[int, ...]) -> None:
    gen, of, states, (here, _) = setting(seed=1)
    stock, fed = states.clone(), [tokens(length, gen) for length in lengths]
    step(of, fed, states, sources=here, targets=here, accepted=(3, 2))
    for row, first in enumerate((2, 1)):
        for token in range(1 + DRAFTS):
            kept = stock[here[row, token]]
            if token < lengths[row]:
                kept = reference(of, fed[row][: token + 1], stock[here[row, first]])[1]
            torch.testing.assert_close(states[here[row, token]].double(), kept.double(), **CLOSE)


def test_a_row_of_padding_changes_nothing() -> None:
    gen, of, states, (here, _) = setting(seed=2)
    here[1] = NULL_BLOCK_ID
    kept = states.clone()
    step(of, [tokens(2, gen), tokens(2, gen)], states, sources=here, targets=here, accepted=(1, 1))
    changed = (states != kept).flatten(1).any(dim=1)
    assert changed.nonzero().flatten().tolist() == here[0, :2].tolist()
