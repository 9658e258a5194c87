"""How a sequence's visible keys are cut into segments: one layout, read by the split kernel and by the reduction."""

from vllm.triton_utils import tl, triton


@triton.jit
def segment_layout(
    seq_len,
    query_len,
    WINDOW: tl.constexpr,
    NUM_SEGMENTS: tl.constexpr,
    TILE_SIZE: tl.constexpr,
):
    """(first tile, tiles a segment, segments in use) of one sequence.

    With a window only the last `query_len + WINDOW - 1` keys can be seen by any of its queries, and the segments cover
    just these; the release spreads them over all `seq_len` keys, so that at 32K keys and a window of 1024 one or two of
    16 work.  The first tile depends on the sequence only, never on the query block: all rows agree on the layout.

    Args:
        seq_len: Keys of the sequence, the new ones included.
        query_len: Its new tokens.
        WINDOW: Keys that one query sees, itself included; 0 for all.
        NUM_SEGMENTS: Segments at most.
        TILE_SIZE: Keys a tile.
    """
    first_tile = 0
    if WINDOW > 0:
        first_tile = tl.maximum(seq_len - query_len - WINDOW + 1, 0) // TILE_SIZE
    tiles = (seq_len + TILE_SIZE - 1) // TILE_SIZE - first_tile
    tiles_per_segment = tl.maximum((tiles + NUM_SEGMENTS - 1) // NUM_SEGMENTS, 1)
    used = (tiles + tiles_per_segment - 1) // tiles_per_segment
    return first_tile, tiles_per_segment, used
