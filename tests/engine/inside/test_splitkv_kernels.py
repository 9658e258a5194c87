"""`splitkv-decode`: the patched kernels against a plain reference and against the release's own 2D launch."""

import dataclasses
import itertools
import math
import random

import attention
import pytest
import torch
from attention import Case

from specdecode_engine.splitkv import Split

SEQ_LENS = [(1,), (15, 16, 17), (70, 33), (1030, 8, 300), (257,), (2049, 1024)]
HEADS = [(4, 1), (6, 2), (16, 1), (8, 8), (28, 4)]
MATRIX = [
    Case(query_len, lens, window, sinks, *heads, causal, block_size)
    for query_len, lens, window, sinks, heads, causal, block_size in itertools.product(
        range(1, 9), SEQ_LENS, (0, 64, 1024), (False, True), HEADS, (True, False), (16, 32)
    )
    if min(lens) >= query_len
]
# A fixed sample in which every value of every axis comes up; in the interpreter a case takes a second.
CASES = random.Random(1).sample(MATRIX, 1200 if torch.cuda.is_available() else 96)
# bf16 on a device, whose float32 products are TF32; float32 in the interpreter.
CLOSE = {"atol": 1.5e-2, "rtol": 1e-2} if torch.cuda.is_available() else {"atol": 2e-5, "rtol": 2e-5}


def admitted(case: Case) -> Split:
    return Split(max_query_len=8, max_seqs=len(case.seq_lens))


def label(case: Case) -> str:
    mask = "causal" if case.causal else "full"
    lens = "-".join(map(str, case.seq_lens))
    return (
        f"q{case.query_len}-k{lens}-w{case.window}-{'sinks' if case.sinks else 'nosinks'}"
        f"-h{case.query_heads}.{case.kv_heads}-{mask}-b{case.block_size}"
    )


@pytest.mark.parametrize("case", CASES, ids=label)
def test_split_equals_the_reference_and_the_2d_launch(case: Case) -> None:
    given = attention.inputs(case)
    rows = given.q.shape[0]
    split = attention.run(case, given, split=admitted(case), scratch_rows=rows)
    plain = attention.run(case, given, split=None, scratch_rows=rows)
    assert split.split
    assert not plain.split
    torch.testing.assert_close(split.out.double(), attention.reference(case, given), **CLOSE)
    torch.testing.assert_close(split.out, plain.out, **CLOSE)


def test_the_sample_holds_every_value_of_every_axis() -> None:
    axes = ("query_len", "seq_lens", "window", "sinks", "query_heads", "causal", "block_size")
    for axis in axes:
        assert {getattr(case, axis) for case in CASES} == {getattr(case, axis) for case in MATRIX}, axis


BASE = Case(4, (70, 300), 64, True, 4, 2, True, 16)


@pytest.mark.parametrize(
    ("split", "rows"),
    [
        (Split(max_query_len=3, max_seqs=8), 8),
        (Split(max_query_len=4, max_seqs=1), 8),
        (Split(max_query_len=4, max_seqs=8), 7),
    ],
    ids=["queries too long", "too many sequences", "scratch too small"],
)
def test_what_is_not_admitted_runs_on_the_2d_launch(split: Split, rows: int) -> None:
    given = attention.inputs(BASE)
    ran = attention.run(BASE, given, split=split, scratch_rows=rows)
    assert not ran.split
    assert torch.equal(ran.out, attention.run(BASE, given, split=None, scratch_rows=rows).out)


def test_batch_invariance_forces_the_2d_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.attention.ops import triton_unified_attention as ops

    monkeypatch.setattr(ops, "is_batch_invariant", True)
    given = attention.inputs(BASE)
    assert not attention.run(BASE, given, split=admitted(BASE), scratch_rows=8).split


def test_graph_padding_leaves_the_real_rows_as_they_are() -> None:
    given = attention.inputs(BASE)
    count, padded = len(BASE.seq_lens), len(BASE.seq_lens) + 2
    zero = given.seq_lens.new_zeros(2)
    extended = dataclasses.replace(
        given,
        q=torch.cat([given.q, given.q.new_zeros(2 * BASE.query_len, *given.q.shape[1:])]),
        block_table=torch.cat([given.block_table, given.block_table.new_zeros(2, given.block_table.shape[1])]),
        cu_query_lens=torch.cat([given.cu_query_lens, given.cu_query_lens[-1:].repeat(2)]),
        seq_lens=torch.cat([given.seq_lens, zero]),
    )
    ran = attention.run(BASE, extended, split=Split(max_query_len=8, max_seqs=padded), scratch_rows=4 * padded)
    assert ran.split
    real = ran.out[: count * BASE.query_len]
    torch.testing.assert_close(real.double(), attention.reference(BASE, given), **CLOSE)


def test_very_low_scores_do_not_vanish_beside_a_segment_that_a_row_cannot_see() -> None:
    case = dataclasses.replace(BASE, query_len=4, seq_lens=(65,), window=0, sinks=False)
    given = attention.inputs(case)
    given.k.mul_(given.k.isfinite()).nan_to_num_(0.0)
    low = dataclasses.replace(given, k=torch.full_like(given.k, -1.0), q=torch.full_like(given.q, 30.0))
    ran = attention.run(case, low, split=admitted(case), scratch_rows=4)
    assert ran.split
    assert 30.0 * math.sqrt(case.head_size) > 104  # exp(-score) is 0 in float32
    torch.testing.assert_close(ran.out.double(), attention.reference(case, low), **CLOSE)
