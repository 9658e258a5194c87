"""`shared-mamba-metadata`: Mamba-2's KV groups share one build of their metadata, under speculation too.

The groups of a hybrid target differ in their block tables alone.  So the release builds the metadata of the first, and
gives the others the same with their own state indices; but with drafts it builds every group's.  Nothing that a draft
adds differs between groups either: query offsets and accepted tokens are the batch's, and what a CUDA graph reads is
copied into the buffers of each group's own builder by the release's update as by its build.
"""

from typing import Any

from specdecode_engine import toggles

ENABLED = toggles.enabled("shared-mamba-metadata")


def may_share(builder: Any) -> bool:
    """Whether the release's `update_block_table` gives what `builder` would have built.

    By exact class: a subclass may build more.  Not with ReplaySSM, whose scratch belongs to one builder.
    """
    return ENABLED and type(builder).__name__ == "Mamba2AttentionMetadataBuilder" and not builder.use_replayssm
