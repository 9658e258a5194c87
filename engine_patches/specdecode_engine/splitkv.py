"""`splitkv-decode`: several query tokens a sequence on the split-KV (3D) launch of vLLM's unified Triton attention.

A drafter's and a verifier's step have a few queries a sequence.  The 2D launch then runs a program for each query block
and KV head, a handful on a device of over a hundred multiprocessors.  The 3D launch cuts the keys into segments, one
program each, and a second kernel reduces them.

Opt-in by argument: a call without a `Split` is the release's, launch for launch.  Only the metadata builders of a
DFlash or DSpark engine make one; a method not listed makes none.
"""

from dataclasses import dataclass
from typing import Any

from specdecode_engine import toggles

OPTED_IN = frozenset({"dflash", "dspark"})
NOT_SPLIT = -1
"""`SPLIT_WINDOW` of a launch that keeps the release's layout."""
SCRATCH = ("softmax_segm_output", "softmax_segm_max", "softmax_segm_expsum")


@dataclass(frozen=True)
class Split:
    """The admission of one metadata builder."""

    max_query_len: int
    """Query tokens a sequence, at most."""
    max_seqs: int
    """Sequences a batch, at most: above it the 2D launch fills the device by itself."""

    def launch(
        self,
        stock_is_3d: bool,
        *,
        q: Any,
        num_seqs: int,
        max_seqlen_q: int,
        segments: int | None,
        scratch: Any,
        head_size_padded: int,
        window: int,
        excluded: bool,
        batch_invariant: bool,
    ) -> tuple[bool, int]:
        """(use the 3D launch, SPLIT_WINDOW) for one attention call.

        Args:
            stock_is_3d: What the release decided; kept for everything excluded.
            q: [tokens, query heads, head size].
            num_seqs: Sequences in the batch, graph padding included.
            max_seqlen_q: Query tokens of the longest.
            segments: Segments a sequence; None without scratch.
            scratch: The partial outputs' buffer, one row a query token; None if there is none.
            head_size_padded: The kernel's stride in it, of this layer's own head size.
            window: Keys that one query sees, 0 for all.
            excluded: The mask is one that segments over a window would not cover (R-SWA, chunked, multimodal prefix,
                causal by sequence), or the launch is tuned otherwise.
            batch_invariant: Reductions must not depend on the batch: 2D.
        """
        if excluded or batch_invariant:
            return stock_is_3d, NOT_SPLIT
        if scratch is None or segments is None:
            return False, NOT_SPLIT
        uniform = q.shape[0] == num_seqs * max_seqlen_q
        fits = scratch.numel() >= q.shape[0] * q.shape[1] * segments * head_size_padded
        admitted = uniform and fits and max_seqlen_q <= self.max_query_len and num_seqs <= self.max_seqs
        return (True, max(window, 0)) if admitted else (False, NOT_SPLIT)


def opted_in(speculative_config: Any) -> bool:
    """Whether the engine's method is one whose attention may be split.  Fail closed: unknown is no."""
    return speculative_config is not None and speculative_config.method in OPTED_IN


def query_len(speculative_config: Any, cap: int) -> int:
    """The longest query of a verify or draft step, at most `cap`: the bonus token and what is drafted, twice for a
    drafter that reads the accepted tokens and drafts in one pass.
    """
    drafted = speculative_config.num_speculative_tokens or 0
    return min(1 + drafted * (2 if speculative_config.parallel_drafting else 1), cap)


def max_seqs(*, multiprocessors: int, kv_heads: int, capture_sizes: list[int] | None, max_num_seqs: int) -> int:
    """Sequences up to which splitting pays: while sequences x KV heads leave multiprocessors idle.

    With CUDA graphs the nearest capture size, as in the release, so that a captured size runs one way.
    """
    wanted = max(multiprocessors // kv_heads, 1)
    if capture_sizes:
        wanted = min(capture_sizes, key=lambda size: abs(size - wanted))
    return min(wanted, max_num_seqs)


def admission(builder: Any, vllm_config: Any, *, cap: int, int4: bool) -> Split | None:
    """The `Split` of a TritonAttentionMetadataBuilder, which gets scratch that holds it; None: all stays the release's.

    Geometry is that of the builder's own KV-cache group: a drafter's heads need not be the target's.
    """
    if not toggles.enabled("splitkv-decode") or type(builder).__name__ != "TritonAttentionMetadataBuilder":
        return None
    if int4 or not opted_in(vllm_config.speculative_config):
        return None
    spec = builder.kv_cache_spec
    split = Split(
        max_query_len=query_len(vllm_config.speculative_config, cap),
        max_seqs=max_seqs(
            multiprocessors=_multiprocessors(builder.device),
            kv_heads=spec.num_kv_heads,
            capture_sizes=(
                vllm_config.compilation_config.cudagraph_capture_sizes if builder.decode_cudagraph_enabled else None
            ),
            max_num_seqs=vllm_config.scheduler_config.max_num_seqs,
        ),
    )
    _provision(builder, rows=split.max_seqs * split.max_query_len, head_size=spec.head_size)
    return split


def _provision(builder: Any, *, rows: int, head_size: int) -> None:
    """Scratch of one row a query token, [rows, query heads, segments(, padded head size)] float32; never less than the
    release's, which launches we exclude still use."""
    import torch

    rows = max(rows, builder.softmax_segm_max.shape[0])
    width = max(1 << (head_size - 1).bit_length(), builder.softmax_segm_output.shape[-1])
    shape = (rows, builder.num_heads_q, builder.num_par_softmax_segments)
    for name in SCRATCH:
        full = (*shape, width) if name == "softmax_segm_output" else shape
        setattr(builder, name, torch.empty(full, dtype=torch.float32, device=builder.device))


def _multiprocessors(device: Any) -> int:
    import torch

    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return 128  # the release's own constant: tests on a CPU
