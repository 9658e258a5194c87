"""The segment layout, as the main kernel and the reduction both read it."""

import math

import pytest
import torch
from attention import DEVICE
from vllm.triton_utils import tl, triton

from specdecode_engine.kernels.segments import segment_layout


@triton.jit
def _layout_kernel(
    out_ptr, seq_len, query_len, WINDOW: tl.constexpr, NUM_SEGMENTS: tl.constexpr, TILE_SIZE: tl.constexpr
):
    first, per_segment, used = segment_layout(seq_len, query_len, WINDOW, NUM_SEGMENTS, TILE_SIZE)
    tl.store(out_ptr, first)
    tl.store(out_ptr + 1, per_segment)
    tl.store(out_ptr + 2, used)


@pytest.mark.parametrize("window", [0, 1, 64, 1024])
@pytest.mark.parametrize("query_len", [1, 4, 8])
@pytest.mark.parametrize("seq_len", [8, 15, 16, 17, 255, 257, 1024, 1031, 32768])
def test_segments_cover_each_visible_tile_once_and_none_is_empty(seq_len: int, query_len: int, window: int) -> None:
    out = torch.zeros(3, dtype=torch.int32, device=DEVICE)
    _layout_kernel[(1,)](out, seq_len, query_len, WINDOW=window, NUM_SEGMENTS=16, TILE_SIZE=16)
    first, per_segment, used = out.tolist()
    first_visible = max(seq_len - query_len - window + 1, 0) if window else 0
    tiles = math.ceil(seq_len / 16)
    assert first == first_visible // 16
    assert 1 <= used <= 16
    assert first + used * per_segment >= tiles
    assert first + (used - 1) * per_segment < tiles
