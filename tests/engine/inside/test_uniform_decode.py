"""`uniform-mamba-metadata`: with the shortcut and without it, every field of the metadata has the same value."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attention import DEVICE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.mamba2_attn import Mamba2AttentionMetadata, Mamba2AttentionMetadataBuilder
from vllm.v1.kv_cache_interface import MambaSpec

from specdecode_engine import uniform_decode

SPEC_TOKENS, BLOCK_SIZE, MAX_REQS = 3, 16, 12


def builder(mode: CUDAGraphMode) -> Mamba2AttentionMetadataBuilder:
    """A builder without an engine round it."""
    made = object.__new__(Mamba2AttentionMetadataBuilder)
    made.__dict__.update(
        kv_cache_spec=MambaSpec(
            block_size=BLOCK_SIZE,
            shapes=((1,),),
            dtypes=(torch.float32,),
            mamba_cache_mode="align",
            num_speculative_blocks=SPEC_TOKENS,
        ),
        vllm_config=SimpleNamespace(cache_config=SimpleNamespace(mamba_cache_mode="align")),
        compilation_config=SimpleNamespace(cudagraph_mode=mode),
        metadata_cls=Mamba2AttentionMetadata,
        reorder_batch_threshold=1 + SPEC_TOKENS,
        num_spec_tokens=SPEC_TOKENS,
        use_spec_decode=True,
        use_replayssm=False,
        use_flashinfer_replayssm=False,
        decode_bc_pre_scratch=None,
        decode_replayssm_scratch=None,
        decode_cudagraph_max_bs=MAX_REQS,
        needs_causal_conv1d_metadata=True,
        state_indices_tensor_d=torch.zeros(MAX_REQS, 1 + SPEC_TOKENS, dtype=torch.int32, device=DEVICE),
        decode_num_accepted_tokens=torch.zeros(MAX_REQS, dtype=torch.int32, device=DEVICE),
    )
    return made


@st.composite
def batches(draw: st.DrawFn) -> SimpleNamespace:
    """Decodes, then padded prompt tails, short extends and prefills, then graph padding: any of them may be absent."""
    decodes = [(draw(st.sampled_from([1, 1 + SPEC_TOKENS])), False) for _ in range(draw(st.integers(0, 5)))]
    tails = [(draw(st.sampled_from([1, 1 + SPEC_TOKENS])), True) for _ in range(draw(st.integers(0, 2)))]
    prefills = [(draw(st.integers(2, 40)), True) for _ in range(draw(st.integers(0, 2)))]
    rows = decodes + (tails if draw(st.booleans()) else []) + (prefills if draw(st.booleans()) else [])
    rows = rows or [(1, False)]
    pads = draw(st.integers(0, 2)) if not any(prefilling for _, prefilling in rows) else 0
    query_lens = [length for length, _ in rows] + [0] * pads
    seq_lens = [length + draw(st.integers(0, 90)) for length, _ in rows] + [0] * pads
    drafts = [length - 1 if draw(st.booleans()) else -1 for length in query_lens]
    gen = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return SimpleNamespace(
        query_start_loc=torch.tensor([sum(query_lens[:row]) for row in range(len(query_lens) + 1)], dtype=torch.int32),
        query_lens=query_lens,
        seq_lens=torch.tensor(seq_lens, dtype=torch.int32),
        prefilling=torch.tensor([prefilling for _, prefilling in rows] + [False] * pads),
        block_table=torch.randint(1, 99, (len(query_lens), 16), generator=gen, dtype=torch.int32),
        accepted=torch.randint(1, 2 + SPEC_TOKENS, (len(query_lens),), generator=gen, dtype=torch.int32),
        drafts=torch.tensor(drafts, dtype=torch.int32) if draw(st.booleans()) else None,
        spec=draw(st.booleans()),
    )


def build(batch: SimpleNamespace, mode: CUDAGraphMode) -> Any:
    common = CommonAttentionMetadata(
        query_start_loc=batch.query_start_loc.to(DEVICE),
        query_start_loc_cpu=batch.query_start_loc,
        seq_lens=batch.seq_lens.to(DEVICE),
        num_reqs=len(batch.query_lens),
        num_actual_tokens=sum(batch.query_lens),
        max_query_len=max(batch.query_lens),
        max_seq_len=256,
        block_table_tensor=batch.block_table.to(DEVICE),
        slot_mapping=torch.zeros(sum(batch.query_lens), dtype=torch.int64, device=DEVICE),
        seq_lens_cpu_upper_bound=batch.seq_lens,
        is_prefilling=batch.prefilling.clone(),
    )
    return builder(mode)._compute_common_metadata(
        common,
        num_accepted_tokens=batch.accepted.to(DEVICE) if batch.spec else None,
        num_decode_draft_tokens_cpu=batch.drafts if batch.spec else None,
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    return bool(one == other)


@given(batch=batches(), mode=st.sampled_from([CUDAGraphMode.NONE, CUDAGraphMode.FULL]))
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_every_field_has_the_same_value(batch: SimpleNamespace, mode: CUDAGraphMode) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(uniform_decode, "ENABLED", False)
        full = build(batch, mode)
        patched.setattr(uniform_decode, "ENABLED", True)
        short = build(batch, mode)
    for field in dataclasses.fields(full):
        assert same(getattr(full, field.name), getattr(short, field.name)), field.name


def test_a_uniform_decode_batch_takes_the_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.attention.backends import mamba_attn

    monkeypatch.setattr(uniform_decode, "ENABLED", True)
    monkeypatch.setattr(mamba_attn, "split_decodes_and_prefills", lambda *_, **__: pytest.fail("classified row by row"))
    count = 4
    batch = SimpleNamespace(
        query_start_loc=torch.arange(count + 1, dtype=torch.int32) * (1 + SPEC_TOKENS),
        query_lens=[1 + SPEC_TOKENS] * count,
        seq_lens=torch.full((count,), 50, dtype=torch.int32),
        prefilling=torch.zeros(count, dtype=torch.bool),
        block_table=torch.ones(count, 16, dtype=torch.int32),
        accepted=torch.ones(count, dtype=torch.int32),
        drafts=None,
        spec=True,
    )
    assert build(batch, CUDAGraphMode.NONE).num_decodes == count
