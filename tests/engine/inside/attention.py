"""One attention case: paged keys and values, the plain PyTorch answer, and vLLM's unified attention on the same."""

import math
from dataclasses import dataclass

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Case:
    """A batch of sequences of equal query length, as a verify or a draft step has."""

    query_len: int
    seq_lens: tuple[int, ...]
    window: int
    """Keys that a query sees, itself included; 0 for all."""
    sinks: bool
    query_heads: int
    kv_heads: int
    causal: bool
    block_size: int
    head_size: int = 32
    dtype: torch.dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    seed: int = 0
    kv_dtype: torch.dtype | None = None
    """None: as the queries; else keys and values have scales."""
    softcap: float = 0.0
    alibi: bool = False


@dataclass(frozen=True)
class Inputs:
    q: torch.Tensor
    """[tokens, query heads, head size]"""
    k: torch.Tensor
    """[blocks, block size, KV heads, head size]"""
    v: torch.Tensor
    block_table: torch.Tensor
    """[sequences, blocks of the longest] int32"""
    cu_query_lens: torch.Tensor
    seq_lens: torch.Tensor
    sinks: torch.Tensor | None
    slopes: torch.Tensor | None = None
    """[query heads] float32 of ALiBi"""
    k_scale: torch.Tensor | None = None
    """[1] float32: what a stored key is times it"""
    v_scale: torch.Tensor | None = None


def inputs(case: Case) -> Inputs:
    """Random values; slots past a sequence's end hold NaN, which no kernel may read."""
    gen = torch.Generator().manual_seed(case.seed)

    def rand(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=gen).to(DEVICE, case.dtype)

    blocks_of = [math.ceil(length / case.block_size) for length in case.seq_lens]
    total, widest = sum(blocks_of), max(blocks_of)
    cache = (total + 1, case.block_size, case.kv_heads, case.head_size)
    k, v = rand(*cache), rand(*cache)
    order = torch.randperm(total, generator=gen) + 1
    table = torch.zeros(len(case.seq_lens), widest, dtype=torch.int32)
    at = 0
    for row, (length, blocks) in enumerate(zip(case.seq_lens, blocks_of, strict=True)):
        table[row, :blocks] = order[at : at + blocks]
        last, used = int(order[at + blocks - 1]), length - (blocks - 1) * case.block_size
        k[last, used:], v[last, used:] = math.nan, math.nan
        at += blocks
    count = len(case.seq_lens)
    scaled = case.kv_dtype is not None
    return Inputs(
        q=rand(count * case.query_len, case.query_heads, case.head_size),
        k=k.to(case.kv_dtype or case.dtype),
        v=v.to(case.kv_dtype or case.dtype),
        block_table=table.to(DEVICE),
        cu_query_lens=(torch.arange(count + 1, dtype=torch.int32) * case.query_len).to(DEVICE),
        seq_lens=torch.tensor(case.seq_lens, dtype=torch.int32, device=DEVICE),
        sinks=rand(case.query_heads) if case.sinks else None,
        slopes=rand(case.query_heads).float() / 64 if case.alibi else None,
        k_scale=torch.tensor([0.5], device=DEVICE) if scaled else None,
        v_scale=torch.tensor([2.0], device=DEVICE) if scaled else None,
    )


def reference(case: Case, given: Inputs) -> torch.Tensor:
    """Softmax over the visible keys and the sink, head by head, in float64."""
    out = torch.empty(given.q.shape, dtype=torch.float64, device=DEVICE)
    group = case.query_heads // case.kv_heads
    for row, length in enumerate(case.seq_lens):
        slots = torch.arange(length, device=DEVICE)
        blocks = given.block_table[row].long()[slots // case.block_size]
        keys = given.k[blocks, slots % case.block_size].double().repeat_interleave(group, dim=1)
        values = given.v[blocks, slots % case.block_size].double().repeat_interleave(group, dim=1)
        for index in range(case.query_len):
            position = length - case.query_len + index
            visible = slots <= position if case.causal else torch.ones_like(slots, dtype=torch.bool)
            if case.window:
                visible &= (slots - position).abs() < case.window
            token = row * case.query_len + index
            scores = torch.einsum("hd,khd->hk", given.q[token].double(), keys) / math.sqrt(case.head_size)
            if given.k_scale is not None:
                scores *= given.k_scale.double()
            if case.softcap:
                scores = case.softcap * torch.tanh(scores / case.softcap)
            if given.slopes is not None:
                scores += given.slopes.double()[:, None] * (slots - (length - case.query_len))
            scores = scores.masked_fill(~visible, -math.inf)
            if given.sinks is not None:
                scores = torch.cat([scores, given.sinks.double()[:, None]], dim=1)
            weights = scores.softmax(dim=1)[:, :length]
            out[token] = torch.einsum("hk,khd->hd", weights, values)
    return out if given.v_scale is None else out * given.v_scale.double()


@dataclass(frozen=True)
class Ran:
    out: torch.Tensor
    split: bool
    """Whether the 3D launch ran: it alone writes the scratch."""


def run(case: Case, given: Inputs, *, split: object, scratch_rows: int, segments: int = 16) -> Ran:
    """vLLM's unified attention with scratch of `scratch_rows` rows, NaN-poisoned; `split` None leaves it out.

    `seq_threshold_3D` is 0: what splits, splits because of `split`.
    """
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    width = 1 << (case.head_size - 1).bit_length()
    shape = (scratch_rows, case.query_heads, segments)
    poison = [torch.full(s, math.nan, device=DEVICE) for s in ((*shape, width), shape, shape)]
    out = torch.full_like(given.q, math.nan)
    ahead = -1 if not case.window else 0 if case.causal else case.window - 1
    unified_attention(
        q=given.q,
        k=given.k,
        v=given.v,
        out=out,
        cu_seqlens_q=given.cu_query_lens,
        max_seqlen_q=case.query_len,
        seqused_k=given.seq_lens,
        max_seqlen_k=max(case.seq_lens),
        softmax_scale=1 / math.sqrt(case.head_size),
        causal=case.causal,
        window_size=(case.window - 1, ahead),
        block_table=given.block_table,
        softcap=0,
        q_descale=None,
        k_descale=None,
        v_descale=None,
        seq_threshold_3D=0,
        num_par_softmax_segments=segments,
        softmax_segm_output=poison[0],
        softmax_segm_max=poison[1],
        softmax_segm_expsum=poison[2],
        sinks=given.sinks,
        **({} if split is None else {"split": split}),
    )
    return Ran(out, split=not bool(poison[1].isnan().all()))
