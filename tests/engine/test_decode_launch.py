"""How a decode attention call is laid over a device, from its shape alone."""

import dataclasses
import itertools

import pytest

from specdecode_engine import decode_launch
from specdecode_engine.decode_launch import UNIT, Call

CALL = Call(seqs=1, query_len=3, query_heads=32, kv_heads=2, head_size=128, max_len=34816, window=0, kv_bytes=2)
CALLS = [
    dataclasses.replace(
        CALL, seqs=seqs, query_len=q, query_heads=heads, kv_heads=kv_heads, head_size=size, window=window
    )
    for seqs, q, (heads, kv_heads), size, window in itertools.product(
        (1, 3, 32), (1, 3, 8), ((32, 2), (28, 4), (8, 8)), (64, 96, 256), (0, 1024)
    )
]


def choose(call: Call, multiprocessors: int = 132) -> decode_launch.Launch:
    return decode_launch.choose(call, multiprocessors=multiprocessors, chained=True)


@pytest.mark.parametrize(
    ("changed", "programs"),
    [
        ({}, 66),
        ({"max_len": 131072}, 66),
        ({"max_len": 640}, 10),
        ({"window": 1024}, 17),
        ({"kv_heads": 1, "query_heads": 16}, 132),
        ({"seqs": 4}, 69),
        ({"seqs": 200}, 265),
    ],
    ids=["one long", "longer", "short", "windowed", "one KV head", "four", "more sequences than multiprocessors"],
)
def test_every_multiprocessor_gets_a_program_if_there_are_tiles_enough(changed: dict[str, int], programs: int) -> None:
    assert choose(dataclasses.replace(CALL, **changed)).programs == programs


def test_an_empty_window_of_lengths_still_has_a_program_for_each_sequence() -> None:
    assert choose(dataclasses.replace(CALL, seqs=7, max_len=1)).programs == 7


@pytest.mark.parametrize("call", CALLS[::5], ids=str)
def test_queries_and_tiles_fit_in_shared_memory(call: Call) -> None:
    launch = choose(call)
    queries = 2 * call.padded_rows * call.padded_head
    tiles = launch.stages * 2 * launch.tile * call.padded_head * call.kv_bytes
    assert queries + tiles <= decode_launch.SHARED_BYTES
    assert launch.tile % UNIT == 0


def test_scratch_grows_with_programs_not_with_keys() -> None:
    longer = dataclasses.replace(CALL, max_len=1 << 20)
    assert decode_launch.scratch(CALL, choose(CALL)) == (2 * 66 * 48 * 128, 2 * 66 * 48)
    assert decode_launch.scratch(longer, choose(longer)) == decode_launch.scratch(CALL, choose(CALL))


@pytest.mark.parametrize(
    ("changed", "block_size", "says"),
    [
        ({"query_len": 9}, 16, "query_len is 9"),
        ({"query_len": 0}, 16, "query_len is 0"),
        ({"query_heads": 34}, 16, "groups of 1 to 16"),
        ({"query_heads": 33}, 16, "33 query heads on 2 KV heads"),
        ({"head_size": 32}, 16, "head_size is 32"),
        ({"head_size": 320}, 16, "head_size is 320"),
        ({}, 24, "block_size is 24"),
    ],
)
def test_what_cannot_be_run_is_said(changed: dict[str, int], block_size: int, says: str) -> None:
    found = decode_launch.unsupported(dataclasses.replace(CALL, **changed), block_size=block_size)
    assert found is not None
    assert says in found


@pytest.mark.parametrize("block_size", [16, 32, 272, 2192])
@pytest.mark.parametrize("call", CALLS[::29], ids=str)
def test_what_engines_ask_for_can_be_run(call: Call, block_size: int) -> None:
    assert decode_launch.unsupported(call, block_size=block_size) is None
