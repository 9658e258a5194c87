"""`mtp-fused-metadata`: the fused last N-1 draft steps start without a build on the host.

Under a FULL graph the release builds slot mappings and attention metadata eagerly before the replay, and inside the
graph refreshes them between steps only.  Here the graph refreshes them before its first step too, so that the eager
build is dead and is left out.  That is right only if the builder's in-graph update rewrites everything that the step
reads; the builders below are known to, any other keeps the eager build.
"""

from collections.abc import Callable
from typing import Any

from specdecode_engine import toggles

ENABLED = toggles.enabled("mtp-fused-metadata")


def update_is_complete(builder: Any) -> bool:
    """Whether `builder.update_draft_decode_metadata` refreshes all that a draft step reads.

    By exact class: a subclass may build more.  DeepSeek's sparse-SWA builder does, with `refresh_rows`; Triton's
    metadata points at persistent inputs only, unless R-SWA stages prefix lengths while building.
    """
    match type(builder).__name__:
        case "DeepseekSparseSWAMetadataBuilder":
            return True
        case "TritonAttentionMetadataBuilder":
            return builder.rswa_window is None
        case _:
            return False


def may_skip_build(*, fused: bool, context_parallel_size: int, complete: list[bool]) -> bool:
    """The rule: steps are fused, no context parallelism, and every builder's update is complete."""
    return fused and context_parallel_size == 1 and bool(complete) and all(complete)


def is_refreshed_in_graph(speculator: Any) -> bool:
    """Decided once, before capture, so that capture and every replay agree."""
    builders = [group.get_metadata_builder() for groups in speculator.attn_groups for group in groups]
    return (
        ENABLED
        and speculator.pcp_manager is None
        and may_skip_build(
            fused=speculator.use_fused_multi_step_decode,
            context_parallel_size=speculator.block_tables.cp_size,
            complete=[update_is_complete(builder) for builder in builders],
        )
    )


def in_graph(speculator: Any) -> Callable[..., None]:
    """What is captured: the refresh of the first step, then the release's fused steps."""

    def refresh_then_draft(
        num_reqs: int,
        num_tokens_padded: int,
        attn_metadata: dict[str, Any] | None,
        slot_mappings: Any,
        num_tokens_across_dp: Any,
        cudagraph_runtime_mode: Any,
    ) -> None:
        if attn_metadata is not None:
            speculator.block_tables.compute_slot_mappings(
                speculator.idx_mapping[:num_reqs],
                speculator.input_buffers.query_start_loc[: num_reqs + 1],
                speculator.input_buffers.positions[:num_reqs],
                num_tokens_padded,
            )
            for groups in speculator.attn_groups:
                for group in groups:
                    group.update_draft_decode_metadata(attn_metadata)
        speculator._generate_fused_drafts(
            num_reqs,
            num_tokens_padded,
            attn_metadata,
            slot_mappings,
            num_tokens_across_dp,
            cudagraph_runtime_mode,
        )

    return refresh_then_draft


def refresh_rows(metadata: Any) -> None:
    """Validity and request of each row of a DeepseekSparseSWAMetadata, from the device's own buffers.

    The release refreshes neither in its update: both came from the eager build.
    """
    from specdecode_engine.kernels import rows

    rows.refresh(
        slot_mapping=metadata.slot_mapping,
        query_start_loc=metadata.query_start_loc,
        is_valid_token=metadata.is_valid_token,
        token_to_req_indices=metadata.token_to_req_indices,
    )
