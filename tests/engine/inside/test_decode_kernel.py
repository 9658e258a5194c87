"""Our split-KV decode attention against a float64 reference, in Triton's interpreter or on a GPU.

Its own tests, because it needs no vLLM: Triton and PyTorch are enough.
"""

import dataclasses
import itertools
import math
import os
import random

import attention
import pytest
import torch
from attention import Case, Inputs

from specdecode_engine import decode_launch
from specdecode_engine.decode_launch import Call, Launch
from specdecode_engine.kernels import decode

ON_GPU = torch.cuda.is_available()
LONG = ON_GPU or bool(os.environ.get("SPECDECODE_LONG_TESTS"))
CLOSE = {"atol": 1.5e-2, "rtol": 1e-2} if ON_GPU else {"atol": 2e-5, "rtol": 2e-5}

# A program takes the interpreter tens of milliseconds: these are as small as they can be with every path in them.
PLAIN = Case(2, (40,), 0, False, 2, 1, True, 16, head_size=64)
QUICK = {
    "one query": dataclasses.replace(PLAIN, query_len=1, seq_lens=(33,)),
    "causal": dataclasses.replace(PLAIN, query_len=3, seq_lens=(200,)),
    "not causal": dataclasses.replace(PLAIN, causal=False),
    "sinks, three heads a group": dataclasses.replace(PLAIN, query_heads=3, sinks=True),
    "window": dataclasses.replace(PLAIN, seq_lens=(300,), window=64, sinks=True),
    "window on both sides": dataclasses.replace(PLAIN, seq_lens=(150,), window=20, causal=False),
    "mixed lengths, one of graph padding": dataclasses.replace(PLAIN, query_len=1, seq_lens=(200, 0, 17)),
    "two KV heads": dataclasses.replace(PLAIN, query_len=1, query_heads=2, kv_heads=2),
    "a large block": dataclasses.replace(PLAIN, block_size=2192),
    "a block that tiles straddle, an odd head": dataclasses.replace(
        PLAIN, seq_lens=(100,), block_size=48, head_size=80
    ),
    "soft cap": dataclasses.replace(PLAIN, softcap=1.0),
    "ALiBi": dataclasses.replace(PLAIN, alibi=True),
}
MATRIX = [
    Case(q, lens, window, sinks, heads, kv_heads, causal, block, head_size=size, softcap=cap)
    for q, lens, window, sinks, (heads, kv_heads), causal, block, size, cap in itertools.product(
        range(1, 9),
        [(8,), (15, 16, 17), (70, 33), (1030, 8, 300), (257,), (2049, 1024)],
        (0, 64, 1024),
        (False, True),
        [(4, 1), (6, 2), (16, 1), (8, 8), (28, 4)],
        (True, False),
        (16, 32, 48, 272, 2192),
        (64, 80, 128, 256),
        (0.0, 5.0),
    )
    if min(lens) >= q
]
# A fixed sample in which every value of every axis comes up.
SAMPLE = random.Random(1).sample(MATRIX, 1500 if ON_GPU else 60) if LONG else []
if ON_GPU:
    SAMPLE += [dataclasses.replace(case, kv_dtype=torch.float8_e4m3fn) for case in SAMPLE[:150]]
    SAMPLE += [dataclasses.replace(case, dtype=torch.float16) for case in SAMPLE[:150]]


def launch_of(case: Case, given: Inputs, multiprocessors: int) -> tuple[Call, Launch]:
    call = Call(
        seqs=len(case.seq_lens),
        query_len=case.query_len,
        query_heads=case.query_heads,
        kv_heads=case.kv_heads,
        head_size=case.head_size,
        max_len=max(case.seq_lens),
        window=case.window,
        kv_bytes=given.k.element_size(),
    )
    return call, decode_launch.choose(call, multiprocessors=multiprocessors, chained=ON_GPU)


def run(case: Case, given: Inputs, *, multiprocessors: int = 132 if ON_GPU else 3, **changed: object) -> torch.Tensor:
    """Our kernel's answer, with NaN in its scratch and where the answer goes."""
    call, launch = launch_of(case, given, multiprocessors)
    launch = dataclasses.replace(launch, **changed)
    scratch = decode.Scratch.of(call, launch, given.q.device)
    scratch.partial.fill_(math.nan)
    scratch.log_sum.fill_(math.nan)
    out = torch.full_like(given.q, math.nan)
    attend(case, given, launch, scratch, out)
    return out


def attend(case: Case, given: Inputs, launch: Launch, scratch: decode.Scratch, out: torch.Tensor) -> None:
    decode.attend(
        given.q,
        given.k,
        given.v,
        out,
        block_table=given.block_table,
        seq_lens=given.seq_lens,
        query_len=case.query_len,
        max_len=max(case.seq_lens),
        scale=1 / math.sqrt(case.head_size),
        causal=case.causal,
        launch=launch,
        scratch_of=scratch,
        window=case.window,
        softcap=case.softcap,
        sinks=given.sinks,
        alibi_slopes=given.slopes,
        k_scale=given.k_scale,
        v_scale=given.v_scale,
    )


def check(case: Case, **changed: object) -> None:
    given = attention.inputs(case)
    real = torch.tensor(case.seq_lens).repeat_interleave(case.query_len) > 0
    expected = attention.reference(case, given)
    torch.testing.assert_close(run(case, given, **changed).double()[real], expected[real], **CLOSE)


@pytest.mark.parametrize("case", QUICK.values(), ids=QUICK.keys())
def test_the_answer_is_the_references(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_the_answer_is_the_references_over_the_matrix(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "changed",
    [{"by_block": False}, {"mask_edges": False}, {"tile": 16}, {"tile": 32, "width": 32, "programs": 5}],
    ids=str,
)
def test_however_it_is_launched(changed: dict[str, object]) -> None:
    check(dataclasses.replace(PLAIN, query_len=1, seq_lens=(90,), window=50), **changed)


def test_two_runs_are_equal_to_the_bit() -> None:
    case = dataclasses.replace(PLAIN, query_len=1, seq_lens=(130, 40), sinks=True)
    given = attention.inputs(case)
    assert torch.equal(run(case, given), run(case, given))


def test_very_low_scores_do_not_vanish() -> None:
    case = dataclasses.replace(PLAIN, query_len=1, seq_lens=(65,))
    given = attention.inputs(case)
    low = dataclasses.replace(given, k=torch.full_like(given.k, -1.0), q=torch.full_like(given.q, 30.0))
    assert 30.0 * math.sqrt(case.head_size) > 104  # exp(-score) is 0 in float32
    torch.testing.assert_close(run(case, low).double(), attention.reference(case, low), **CLOSE)


def test_a_sequence_of_graph_padding_gets_zeros() -> None:
    case = dataclasses.replace(PLAIN, query_len=1, seq_lens=(0, 20))
    assert bool((run(case, attention.inputs(case))[0] == 0).all())


@pytest.mark.parametrize(
    ("short", "says"),
    [("partial", "scratch holds"), ("log_sum", "scratch holds"), ("programs", "at least one for each")],
)
def test_what_does_not_fit_is_refused_before_it_is_launched(short: str, says: str) -> None:
    case = dataclasses.replace(PLAIN, seq_lens=(200, 17))
    given = attention.inputs(case)
    call, launch = launch_of(case, given, 3)
    scratch = decode.Scratch.of(call, launch, given.q.device)
    if short == "programs":
        launch = dataclasses.replace(launch, programs=1)
    else:
        scratch = dataclasses.replace(scratch, **{short: getattr(scratch, short)[:-1]})
    with pytest.raises(ValueError, match=says):
        attend(case, given, launch, scratch, torch.empty_like(given.q))
