"""`skip-draft-rebuild`: no metadata is built for a draft step whose CUDA graph would not read it.

A FULL graph replays with the metadata it was captured with; what that metadata points to are persistent buffers, which
the input preparation has already refreshed.  Building it again on the host is dead work, unless a builder also writes
buffers of its own while building.  Each builder must say that it does not; one that says nothing is rebuilt.
"""

from typing import Any

from specdecode_engine import toggles

ENABLED = toggles.enabled("skip-draft-rebuild")
FLAG = "supports_skip_draft_rebuild"


def may_skip(*, full_graph: bool, flags: list[object], context_parallel_size: int) -> bool:
    """The rule.

    Args:
        full_graph: The step replays a FULL graph.
        flags: What each draft builder says of itself; anything but True is a no.
        context_parallel_size: Above 1, local sequence lengths are refreshed while building.
    """
    return full_graph and context_parallel_size == 1 and bool(flags) and all(flag is True for flag in flags)


def discards_rebuild(speculator: Any, *, full_graph: bool) -> bool:
    """Whether this draft step's metadata would be thrown away."""
    builders = (group.get_metadata_builder() for groups in speculator.attn_groups for group in groups)
    return ENABLED and may_skip(
        full_graph=full_graph,
        flags=[getattr(builder, FLAG, False) for builder in builders],
        context_parallel_size=speculator.block_tables.cp_size,
    )
