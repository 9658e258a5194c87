"""Batches of a Mamba-2 hybrid under speculation, and the release's own builders for them, without an engine round."""

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from attention import DEVICE
from hypothesis import strategies as st
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.mamba2_attn import Mamba2AttentionMetadataBuilder
from vllm.v1.kv_cache_interface import MambaSpec

SPEC_TOKENS, BLOCK_SIZE, MAX_REQS, BLOCKS = 3, 16, 12, 16
QUERY = 1 + SPEC_TOKENS


def config(mode: CUDAGraphMode) -> Any:
    """What a builder reads of VllmConfig."""
    return SimpleNamespace(
        num_speculative_tokens=SPEC_TOKENS,
        num_hash_lookahead_tokens=0,
        use_v2_model_runner=True,
        speculative_config=SimpleNamespace(
            method="dspark",
            num_speculative_tokens=SPEC_TOKENS,
            parallel_drafting=False,
            use_eagle_block_drop=lambda: False,
        ),
        compilation_config=SimpleNamespace(cudagraph_mode=mode, max_cudagraph_capture_size=MAX_REQS * QUERY),
        cache_config=SimpleNamespace(
            mamba_cache_mode="align",
            use_replayssm=False,
            replayssm_buffer_len=0,
            hash_block_size=BLOCK_SIZE // 4,
            cache_hit_alignment_tokens=BLOCK_SIZE // 4,
        ),
        scheduler_config=SimpleNamespace(max_num_seqs=MAX_REQS, async_scheduling=True),
        parallel_config=SimpleNamespace(decode_context_parallel_size=1, prefill_context_parallel_size=1),
        model_config=SimpleNamespace(get_mamba_chunk_size=lambda: 8),
    )


def spec(checkpoints: int = 0) -> MambaSpec:
    """The KV groups' spec; with checkpoints, a prefill also keeps the state at a block's end inside it."""
    return MambaSpec(
        block_size=BLOCK_SIZE,
        shapes=((1,),),
        dtypes=(torch.float32,),
        mamba_cache_mode="align",
        num_speculative_blocks=SPEC_TOKENS,
        num_prefill_checkpoint_blocks=checkpoints,
    )


def builder(mode: CUDAGraphMode, checkpoints: int = 0) -> Mamba2AttentionMetadataBuilder:
    """One KV group's, its buffers filled with what no batch has."""
    made = Mamba2AttentionMetadataBuilder(spec(checkpoints), ["layer"], config(mode), DEVICE)
    made.state_indices_tensor_d.fill_(-7)
    made.decode_num_accepted_tokens.fill_(-7)
    return made


@st.composite
def batches(draw: st.DrawFn) -> SimpleNamespace:
    """Decodes, then padded prompt tails, short extends and prefills, then graph padding: any of them may be absent."""
    decodes = [(draw(st.sampled_from([1, QUERY])), False) for _ in range(draw(st.integers(0, 5)))]
    tails = [(draw(st.sampled_from([1, QUERY])), True) for _ in range(draw(st.integers(0, 2)))]
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
        block_tables=[torch.randint(1, 99, (len(query_lens), BLOCKS), generator=gen, dtype=torch.int32) for _ in "abc"],
        accepted=torch.randint(1, 1 + QUERY, (len(query_lens),), generator=gen, dtype=torch.int32),
        drafts=torch.tensor(drafts, dtype=torch.int32) if draw(st.booleans()) else None,
        spec=draw(st.booleans()),
    )


def common(batch: SimpleNamespace, group: int = 0) -> CommonAttentionMetadata:
    """What the model runner gives the builder of one KV group."""
    return CommonAttentionMetadata(
        query_start_loc=batch.query_start_loc.to(DEVICE),
        query_start_loc_cpu=batch.query_start_loc,
        seq_lens=batch.seq_lens.to(DEVICE),
        num_reqs=len(batch.query_lens),
        num_actual_tokens=sum(batch.query_lens),
        max_query_len=max(batch.query_lens),
        max_seq_len=256,
        block_table_tensor=batch.block_tables[group].to(DEVICE),
        slot_mapping=torch.zeros(sum(batch.query_lens), dtype=torch.int64, device=DEVICE),
        seq_lens_cpu_upper_bound=batch.seq_lens,
        is_prefilling=batch.prefilling.clone(),
    )


def drafted(batch: SimpleNamespace) -> dict[str, Any]:
    """What it gives beside that, if the batch has any drafts."""
    return {
        "num_accepted_tokens": batch.accepted.to(DEVICE) if batch.spec else None,
        "num_decode_draft_tokens_cpu": batch.drafts if batch.spec else None,
    }


def same(one: Any, other: Any) -> bool:
    """Of one type, and equal through and through."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and not differing(one, other)
    return bool(one == other)


def differing(one: Any, other: Any) -> Sequence[str]:
    """Fields of two objects of one dataclass that are not the same."""
    names = [field.name for field in dataclasses.fields(one)]
    return [name for name in names if not same(getattr(one, name), getattr(other, name))]
