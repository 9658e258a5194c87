"""Attention of a draft or verify step: a few queries a sequence, on paged keys and values, split over the device.

Two launches.  Programs of the first each take a range of one sequence's visible keys and leave a partial output and
the log of its sum of weights; the second weighs and adds them (Dao et al., Flash-Decoding, 2023; the softmax on the way
is that of Milakov and Gimelshein, 2018).  The ranges of all sequences are about alike in length: a long sequence gets
more programs.  Every sum is taken in an order that only lengths determine, so equal inputs give equal bits.

Nothing on the host depends on a device value, so the pair can be captured in a CUDA graph.
"""

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from specdecode_engine.decode_launch import UNIT, Call, Launch, power_of_two, scratch, unsupported

LOG2E = tl.constexpr(math.log2(math.e))
LOWEST = tl.constexpr(-1e38)
"""Below any score, and finite: a row that sees no key of a tile needs no case of its own."""
REDUCED = 8192
"""Values that a program of the reduction holds at once."""
LINE_ENTRIES = 32
"""Entries of a block table in a line of the L2 cache."""
MAX_PREFETCHED = 4096
"""Lines of the block tables that are asked for ahead: with longer tables that would cost more than it saves."""


@triton.jit
def _visible_units(seq_len, QUERY_LEN: tl.constexpr, WINDOW: tl.constexpr, UNIT: tl.constexpr):
    """(first unit that any query of the sequence sees, units from there to its end)."""
    first = seq_len * 0
    if WINDOW > 0:
        first = tl.maximum(seq_len - QUERY_LEN - WINDOW + 1, 0) // UNIT
    return first, (seq_len + UNIT - 1) // UNIT - first


@triton.jit
def _shares(
    seq_lens_ptr,
    num_seqs,
    programs,
    QUERY_LEN: tl.constexpr,
    WINDOW: tl.constexpr,
    UNIT: tl.constexpr,
    LEAST: tl.constexpr,
    SEQS: tl.constexpr,
):
    """(units a program takes, and for all sequences, [SEQS] each: lengths, programs on it, programs up to and with it).

    The share is the least for which `programs` are enough: sequences of u units need
    sum(ceil(u / share)) <= (sum(u) - busy) // share + busy.
    """
    seq = tl.arange(0, SEQS)
    seq_lens = tl.load(seq_lens_ptr + seq, mask=seq < num_seqs, other=0)
    _, units = _visible_units(seq_lens, QUERY_LEN, WINDOW, UNIT)
    busy = tl.sum((units > 0).to(tl.int32), axis=0)
    share = tl.maximum((tl.sum(units, axis=0) - busy) // (programs - busy + 1) + 1, LEAST // UNIT)
    used = (units + share - 1) // share
    return share, seq_lens, used, tl.cumsum(used, axis=0)


@triton.jit
def _share(units, programs, UNIT: tl.constexpr, LEAST: tl.constexpr):
    """The same for a batch of one."""
    return tl.maximum((units + programs - 1) // programs, LEAST // UNIT)


@triton.jit
def _prefetch(ptr):
    """Ask for the line at each address; nothing waits for it."""
    tl.inline_asm_elementwise("prefetch.global.L2 [$1]; // $0", "=r,l", [ptr], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _entry(ptr, COMPILED: tl.constexpr):
    """One entry of a block table, int32.  To the compiler it is no load, so it takes no stage of a loop's pipeline from
    keys and values; it is read ahead of its iteration, and of iterations that never come: `ptr` has to be valid then.
    """
    if COMPILED:
        return tl.inline_asm_elementwise("ld.global.b32 $0, [$1];", "=r,l", [ptr], dtype=tl.int32, is_pure=True, pack=1)
    else:
        return tl.load(ptr)


@triton.jit
def _block_of(
    table_ptr,
    start,
    key,
    last,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    UNIT: tl.constexpr,
    BY_BLOCK: tl.constexpr,
    COMPILED: tl.constexpr,
):
    """The physical block of each key, int64 [TILE].  `start`, the first of them, is at a unit; `last` is a block index.

    BY_BLOCK reads an entry a block, from the L1 cache but for one in 32; else one a key.
    """
    if BY_BLOCK:
        first = start // BLOCK
        block = tl.zeros([TILE], dtype=tl.int32) + _entry(table_ptr + tl.minimum(first, last), COMPILED)
        for ahead in tl.static_range(1, (BLOCK + TILE - UNIT - 1) // BLOCK + 1):
            following = _entry(table_ptr + tl.minimum(first + ahead, last), COMPILED)
            block = tl.where(key >= (first + ahead) * BLOCK, following, block)
    else:
        block = tl.load(table_ptr + tl.minimum(key // BLOCK, last))
    return block.to(tl.int64)


@triton.jit(do_not_specialize=["num_seqs", "table_lines", "table_stride"])
def _split_kernel(
    partial_ptr,  # [KV heads, programs, QUERY_LEN * GROUP, HEAD], out
    log_sum_ptr,  # [KV heads, programs, QUERY_LEN * GROUP] float32, out: log2 of the sum of weights
    q_ptr,  # [sequences * QUERY_LEN, query heads, HEAD]
    k_ptr,  # [blocks, BLOCK, KV heads, HEAD]
    v_ptr,
    table_ptr,  # [sequences, blocks of the longest] int32
    seq_lens_ptr,  # [sequences] int32
    slopes_ptr,  # [query heads] float32 of ALiBi, or None
    k_scale_ptr,  # [1] float32, or None
    v_scale_ptr,
    scale,
    softcap,
    num_seqs,
    table_lines,
    q_stride_0,
    q_stride_1,
    k_stride_0,
    k_stride_1,
    k_stride_2,
    v_stride_0,
    v_stride_1,
    v_stride_2,
    table_stride,
    QUERY_LEN: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,  # QUERY_LEN * GROUP, padded
    HEAD: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    UNIT: tl.constexpr,
    LEAST: tl.constexpr,
    SEQS: tl.constexpr,  # sequences, padded
    WINDOW: tl.constexpr,
    CAUSAL: tl.constexpr,
    SOFTCAP: tl.constexpr,
    BY_BLOCK: tl.constexpr,
    MASK_EDGES: tl.constexpr,
    PREFETCH: tl.constexpr,
    COMPILED: tl.constexpr,  # not interpreted
    CHAINED: tl.constexpr,
):
    """Grid: (programs, KV heads).  A program that gets no keys writes nothing."""
    if CHAINED:
        tl.extra.cuda.gdc_launch_dependents()
    program = tl.program_id(0)
    programs = tl.num_programs(0)
    kv_head = tl.program_id(1)

    if PREFETCH:
        # The table is on its way to the L2 cache while the lengths are read that say which part of it is needed.
        line = (program * tl.num_programs(1) + kv_head) * 32 + tl.arange(0, 32)
        _prefetch(table_ptr + line % table_lines * 32)

    if SEQS == 1:
        seq = 0
        part = program
        seq_len = tl.load(seq_lens_ptr)
    else:
        share, seq_lens, each, upto = _shares(seq_lens_ptr, num_seqs, programs, QUERY_LEN, WINDOW, UNIT, LEAST, SEQS)
        seq = tl.sum((upto <= program).to(tl.int32), axis=0)
        mine = tl.arange(0, SEQS) == seq
        seq_len = tl.sum(tl.where(mine, seq_lens, 0), axis=0)
        part = program - tl.sum(tl.where(mine, upto - each, 0), axis=0)

    row = tl.arange(0, ROWS)
    d = tl.arange(0, HEAD_PADDED)
    query = row // GROUP
    head = kv_head * GROUP + row % GROUP
    row_ok = row < QUERY_LEN * GROUP
    d_ok = d < HEAD
    token = tl.minimum(seq, num_seqs - 1) * QUERY_LEN + query
    q = tl.load(
        q_ptr + token.to(tl.int64)[:, None] * q_stride_0 + head[:, None] * q_stride_1 + d[None, :],
        mask=row_ok[:, None] & d_ok[None, :],
        other=0.0,
    )

    first, units = _visible_units(seq_len, QUERY_LEN, WINDOW, UNIT)
    if SEQS == 1:
        share = _share(units, programs, UNIT, LEAST)
    if part * share >= units:
        return
    begin = (first + part * share) * UNIT
    end = tl.minimum(begin + share * UNIT, seq_len)

    # Keys that a row sees: from low to below high.  Those before `lowest` no row sees, and they may be gone.
    position = seq_len - QUERY_LEN + query
    lowest = seq_len * 0
    low = position * 0
    high = position * 0 + end
    whole_from = begin
    whole_to = end
    if WINDOW > 0:
        lowest = tl.maximum(seq_len - QUERY_LEN - WINDOW + 1, 0)
        low = tl.maximum(position - WINDOW + 1, 0)
        whole_from = seq_len - WINDOW
        if not CAUSAL:
            high = tl.minimum(high, position + WINDOW)
            whole_to = tl.minimum(end, seq_len - QUERY_LEN + WINDOW)
    if CAUSAL:
        high = tl.minimum(high, position + 1)
        whole_to = tl.minimum(end, seq_len - QUERY_LEN + 1)

    # Weights are powers of two: `to_log2` goes from what the loop holds of a score to its logarithm.
    to_log2 = scale * LOG2E
    k_scale = 1.0
    if k_scale_ptr is not None:
        k_scale = tl.load(k_scale_ptr)
        to_log2 *= k_scale
    if SOFTCAP or slopes_ptr is not None:
        to_log2 = LOG2E
    if slopes_ptr is not None:
        slope = tl.load(slopes_ptr + head, mask=row_ok, other=0.0)

    m = tl.full([ROWS], LOWEST, dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    acc = tl.zeros([ROWS, HEAD_PADDED], dtype=tl.float32)
    table_row = table_ptr + seq * table_stride
    last = (seq_len - 1) // BLOCK
    for start in tl.range(begin, end, TILE):
        key = start + tl.arange(0, TILE)
        block = _block_of(table_row, start, key, last, BLOCK, TILE, UNIT, BY_BLOCK, COMPILED)
        slot = key % BLOCK
        there = (key >= lowest) & (key < end)
        loaded = there[:, None] if HEAD == HEAD_PADDED else there[:, None] & d_ok[None, :]
        k_at = block * k_stride_0 + slot * k_stride_1 + kv_head * k_stride_2
        k = tl.load(k_ptr + k_at[:, None] + d[None, :], mask=loaded, other=0.0)
        v_at = block * v_stride_0 + slot * v_stride_1 + kv_head * v_stride_2
        v = tl.load(v_ptr + v_at[:, None] + d[None, :], mask=loaded, other=0.0)

        s = tl.dot(q, tl.trans(k.to(q.dtype)))
        if SOFTCAP:
            x = s * (scale * k_scale / softcap)
            s = (1.0 - 2.0 / (1.0 + tl.exp2(x * (2.0 * LOG2E)))) * softcap
        elif slopes_ptr is not None:
            s *= scale * k_scale
        if slopes_ptr is not None:
            s += slope[:, None] * (key - (seq_len - QUERY_LEN))[None, :].to(tl.float32)
        if MASK_EDGES:
            if (start < whole_from) | (start + TILE > whole_to):
                s = tl.where((key[None, :] >= low[:, None]) & (key[None, :] < high[:, None]), s, float("-inf"))
        else:
            s = tl.where((key[None, :] >= low[:, None]) & (key[None, :] < high[:, None]), s, float("-inf"))

        m_next = tl.maximum(m, tl.max(s, axis=1) * to_log2)
        weight = tl.exp2(s * to_log2 - m_next[:, None])
        decay = tl.exp2(m - m_next)
        total = total * decay + tl.sum(weight, axis=1)
        acc = tl.dot(weight.to(q.dtype), v.to(q.dtype), acc * decay[:, None])
        m = m_next

    out = acc / tl.where(total > 0, total, 1.0)[:, None]
    if v_scale_ptr is not None:
        out *= tl.load(v_scale_ptr)
    at = (kv_head * programs + program).to(tl.int64) * (QUERY_LEN * GROUP) + row
    tl.store(
        partial_ptr + at[:, None] * HEAD + d[None, :],
        out.to(partial_ptr.dtype.element_ty),
        mask=row_ok[:, None] & d_ok[None, :],
    )
    tl.store(log_sum_ptr + at, tl.where(total > 0, m + tl.log2(total), float("-inf")), mask=row_ok)


@triton.jit(do_not_specialize=["num_seqs", "programs"])
def _reduce_kernel(
    out_ptr,  # [sequences * QUERY_LEN, query heads, HEAD], out
    partial_ptr,  # as the split kernel leaves them
    log_sum_ptr,
    seq_lens_ptr,
    sinks_ptr,  # [query heads], or None
    num_seqs,
    programs,
    out_stride_0,
    out_stride_1,
    QUERY_LEN: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD: tl.constexpr,
    UNIT: tl.constexpr,
    LEAST: tl.constexpr,
    SEQS: tl.constexpr,
    WINDOW: tl.constexpr,
    WIDTH: tl.constexpr,
    AT_ONCE: tl.constexpr,  # programs whose parts are added up at once
    CHAINED: tl.constexpr,
):
    """Grid: (sequences * rows, KV heads, parts of a head).  A sequence without keys gets zeros."""
    row = tl.program_id(0) % (QUERY_LEN * GROUP)
    seq = tl.program_id(0) // (QUERY_LEN * GROUP)
    kv_head = tl.program_id(1)
    head = kv_head * GROUP + row % GROUP
    d = tl.program_id(2) * WIDTH + tl.arange(0, WIDTH)

    m = tl.full([], LOWEST, dtype=tl.float32)
    total = tl.zeros([], dtype=tl.float32)
    if sinks_ptr is not None:
        m = tl.maximum(tl.load(sinks_ptr + head).to(tl.float32) * LOG2E, LOWEST)
        total = total + 1.0
    if SEQS == 1:
        before = 0
        _, units = _visible_units(tl.load(seq_lens_ptr), QUERY_LEN, WINDOW, UNIT)
        share = _share(units, programs, UNIT, LEAST)
        used = (units + share - 1) // share
    else:
        _, _, each, upto = _shares(seq_lens_ptr, num_seqs, programs, QUERY_LEN, WINDOW, UNIT, LEAST, SEQS)
        mine = tl.arange(0, SEQS) == seq
        used = tl.sum(tl.where(mine, each, 0), axis=0)
        before = tl.sum(tl.where(mine, upto - each, 0), axis=0)
    acc = tl.zeros([WIDTH], dtype=tl.float32)
    if CHAINED:
        tl.extra.cuda.gdc_wait()

    for done in tl.range(0, used, AT_ONCE, num_stages=1):
        part = done + tl.arange(0, AT_ONCE)
        at = (kv_head * programs + before + part).to(tl.int64) * (QUERY_LEN * GROUP) + row
        log_sum = tl.load(log_sum_ptr + at, mask=part < used, other=float("-inf"))
        partial = tl.load(
            partial_ptr + at[:, None] * HEAD + d[None, :],
            mask=(part < used)[:, None] & (d < HEAD)[None, :],
            other=0.0,
        ).to(tl.float32)
        m_next = tl.maximum(m, tl.max(log_sum, axis=0))
        weight = tl.exp2(log_sum - m_next)
        decay = tl.exp2(m - m_next)
        total = total * decay + tl.sum(weight, axis=0)
        acc = acc * decay + tl.sum(partial * weight[:, None], axis=0)
        m = m_next

    out = acc / tl.where(total > 0, total, 1.0)
    token = (seq * QUERY_LEN + row // GROUP).to(tl.int64)
    tl.store(out_ptr + token * out_stride_0 + head * out_stride_1 + d, out.to(out_ptr.dtype.element_ty), mask=d < HEAD)


@dataclass(frozen=True)
class Scratch:
    """What the two launches hand over; contents before and after a call mean nothing."""

    partial: torch.Tensor
    """Flat, float32."""
    log_sum: torch.Tensor
    """Flat, float32."""

    @classmethod
    def of(cls, call: Call, launch: Launch, device: torch.device) -> "Scratch":
        values, sums = scratch(call, launch)
        return cls(
            torch.empty(values, dtype=torch.float32, device=device),
            torch.empty(sums, dtype=torch.float32, device=device),
        )


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    *,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_len: int,
    max_len: int,
    scale: float,
    causal: bool,
    launch: Launch,
    scratch_of: Scratch,
    window: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    alibi_slopes: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
) -> None:
    """Write `out` = softmax(scores over the visible keys and the sink) times the values.

    Args:
        q: [sequences * query_len, query heads, head size], bf16 or fp16; `out` likewise.
        k: [blocks, block size, KV heads, head size], of q's dtype or fp8; `v` likewise.  The last axis is contiguous.
        block_table: [sequences, blocks] int32.
        seq_lens: [sequences] int32: keys of each, the new ones included; 0 for graph padding.
        max_len: What no length exceeds.
        scale: Of a score, above 0.
        causal: A query sees no key after its own.
        window: Keys that a query sees, itself included, on either side if not causal; 0 for all.
        softcap: Scores are at most that in size; 0 for no cap.
        sinks: [query heads]: a score that takes weight and has no value.
        alibi_slopes: [query heads] float32: slope * (key - first new key) is added to a score.
        k_scale: [1] float32: what a stored key is times that; `v_scale` likewise.

    Raises ValueError if the call is one that cannot be run, or the scratch is too small for it.
    """
    call = Call(
        seqs=seq_lens.shape[0],
        query_len=query_len,
        query_heads=q.shape[1],
        kv_heads=k.shape[2],
        head_size=q.shape[2],
        max_len=max_len,
        window=window,
        kv_bytes=k.element_size(),
    )
    _check(call, q, k, launch, scratch_of)
    shares = {
        "QUERY_LEN": query_len,
        "GROUP": call.group,
        "HEAD": call.head_size,
        "UNIT": UNIT,
        "LEAST": launch.least,
        "SEQS": power_of_two(call.seqs),
        "WINDOW": window,
        "CHAINED": launch.chained,
    }
    lines = triton.cdiv(block_table.shape[0] * block_table.stride(0), LINE_ENTRIES)
    _split_kernel[(launch.programs, call.kv_heads)](
        scratch_of.partial,
        scratch_of.log_sum,
        q,
        k,
        v,
        block_table,
        seq_lens,
        alibi_slopes,
        k_scale,
        v_scale,
        scale,
        softcap,
        call.seqs,
        lines,
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        k.stride(2),
        v.stride(0),
        v.stride(1),
        v.stride(2),
        block_table.stride(0),
        ROWS=call.padded_rows,
        HEAD_PADDED=call.padded_head,
        BLOCK=k.shape[1],
        TILE=launch.tile,
        CAUSAL=causal,
        SOFTCAP=softcap > 0,
        BY_BLOCK=launch.by_block,
        MASK_EDGES=launch.mask_edges,
        PREFETCH=launch.prefetched and q.is_cuda and lines <= MAX_PREFETCHED,
        COMPILED=q.is_cuda,
        num_warps=launch.warps,
        num_stages=launch.stages,
        **shares,
    )
    at_once = min(power_of_two(launch.programs), REDUCED // launch.width)
    _reduce_kernel[(call.seqs * call.rows, call.kv_heads, triton.cdiv(call.head_size, launch.width))](
        out,
        scratch_of.partial,
        scratch_of.log_sum,
        seq_lens,
        sinks,
        call.seqs,
        launch.programs,
        out.stride(0),
        out.stride(1),
        WIDTH=launch.width,
        AT_ONCE=at_once,
        num_warps=4,
        **({"launch_pdl": True} if launch.chained else {}),
        **shares,
    )


def _check(call: Call, q: torch.Tensor, k: torch.Tensor, launch: Launch, given: Scratch) -> None:
    why = unsupported(call, block_size=k.shape[1])
    if why is None and q.shape[0] != call.seqs * call.query_len:
        why = f"q has {q.shape[0]} tokens; {call.seqs} sequences of {call.query_len} have {call.seqs * call.query_len}"
    if why is None and launch.programs < call.seqs:
        why = f"launch.programs is {launch.programs}; at least one for each of {call.seqs} sequences is needed"
    values, sums = scratch(call, launch)
    if why is None and (given.partial.numel() < values or given.log_sum.numel() < sums):
        why = f"scratch holds {given.partial.numel()} and {given.log_sum.numel()} values; it needs {values} and {sums}"
    if why is not None:
        raise ValueError(f"decode attention: {why}")
