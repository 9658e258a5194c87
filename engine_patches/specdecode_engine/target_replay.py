"""`skip-target-rebuild`: no metadata is built for a decode step of a Mamba-2 hybrid whose CUDA graph would not read it.

A FULL graph replays with the metadata of its capture.  What that points to are the model runner's persistent inputs,
already refreshed, and buffers which the Mamba builders write while they build: state indices and accepted tokens of
each KV group.  One launch writes those of all groups; the rest of the build is dead work.  Whatever is not known to be
so keeps the release's build: another builder or drafter, a KV connector, context parallelism, a batch that prefills.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specdecode_engine import toggles

ENABLED = toggles.enabled("skip-target-rebuild")
METHODS = frozenset({"dflash", "dspark"})
"""Drafters that don't read the target's metadata."""

Groups = Sequence[Sequence[Any]]
"""The model runner's AttentionGroups, one list a KV group."""


def applies(state: Any) -> bool:
    """Whether only the graph reads the metadata that this model state builds, and `align` lays out the Mamba states.

    `state` is vLLM's MambaHybridModelState, by exact class: those of single models do more.
    """
    config = state.vllm_config
    return (
        type(state).__name__ == "MambaHybridModelState"
        and config.speculative_config is not None
        and config.speculative_config.method in METHODS
        and config.kv_transfer_config is None
        and config.cache_config.mamba_cache_mode == "align"
        and config.parallel_config.decode_context_parallel_size == 1
        and config.parallel_config.prefill_context_parallel_size == 1
    )


def is_uniform_decode(batch: Any, longest: int) -> bool:
    """Whether every row of vLLM's InputBatch is a decode of at most `longest` tokens.

    Rows whose lengths the device alone knows (adaptive verification) are not, nor is a padded prompt tail.
    """
    return batch.max_query_len is None and not batch.has_prefill and int(batch.num_scheduled_tokens.max()) <= longest


def keeps_nothing(group: Any) -> bool:
    """Whether a build for this AttentionGroup writes to no buffer that a graph reads.

    By exact class.  Triton's metadata points at persistent inputs, unless R-SWA stages prefix lengths or the block
    table is mapped to smaller blocks.
    """
    builder = group.get_metadata_builder(0)
    return (
        type(builder).__name__ == "TritonAttentionMetadataBuilder"
        and builder.rswa_window is None
        and group.kernel_block_size is None
    )


def keeps_states(group: Any) -> bool:
    """Whether it writes state indices and accepted tokens alone: Mamba-2's under speculation, without ReplaySSM."""
    builder = group.get_metadata_builder(0)
    return (
        type(builder).__name__ == "Mamba2AttentionMetadataBuilder"
        and builder.use_spec_decode
        and not builder.use_replayssm
        and group.kernel_block_size is None
    )


@dataclass(frozen=True)
class States:
    """The buffers of a model's Mamba groups, all laid out alike."""

    groups: Groups
    ids: tuple[int, ...]
    """KV group of each builder."""
    builders: tuple[Any, ...]
    tables: tuple[int, ...]
    """Address of each one's block table, which is there to stay."""
    pointers: Any
    """[3, builders] int64, on the device: addresses of block tables, state indices and accepted tokens."""

    def are_of(self, groups: Groups, block_tables: Sequence[Any]) -> bool:
        """Whether builders and tables are still those that the addresses were taken from."""
        return (
            self.groups is groups
            and groups[self.ids[0]][0].get_metadata_builder(0) is self.builders[0]
            and tuple(block_tables[id].data_ptr() for id in self.ids) == self.tables
        )

    def fit(self, batch: Any, *, capture: bool) -> bool:
        """Whether the buffers have the batch's rows, and all of them are decodes; those of a capture are."""
        builder = self.builders[0]
        return batch.num_reqs_after_padding <= builder.decode_cudagraph_max_bs and (
            capture or is_uniform_decode(batch, builder.reorder_batch_threshold)
        )

    def write(self, batch: Any, block_tables: Sequence[Any], accepted: Any) -> None:
        """State indices and accepted tokens of every row, for all groups."""
        from specdecode_engine.kernels import states

        states.refresh(
            self.pointers,
            block_table=block_tables[self.ids[0]],
            seq_lens=batch.seq_lens,
            requests=batch.idx_mapping,
            accepted=accepted,
            block_size=self.builders[0].kv_cache_spec.block_size,
            slots=self.builders[0].state_indices_tensor_d.shape[1],
        )


def find(groups: Groups, block_tables: Sequence[Any]) -> States | None:
    """The states of these KV groups; None if a build writes more, or if they are not laid out alike.

    `block_tables` are int32 tensors [rows, blocks], one a KV group.
    """
    import torch

    every = [(id, group) for id, of in enumerate(groups) for group in of]
    mamba = [(id, group.get_metadata_builder(0)) for id, group in every if keeps_states(group)]
    if not mamba or not all(keeps_states(group) or keeps_nothing(group) for _, group in every):
        return None
    ids, builders = zip(*mamba, strict=True)
    tables = [block_tables[id] for id in ids]
    layouts = {(table.dtype, *table.stride()) for table in tables}
    blocks = {builder.kv_cache_spec.block_size for builder in builders}
    if layouts != {(torch.int32, tables[0].stride(0), 1)} or len(blocks) > 1:
        return None
    addresses = tuple(table.data_ptr() for table in tables)
    states = [builder.state_indices_tensor_d.data_ptr() for builder in builders]
    accepted = [builder.decode_num_accepted_tokens.data_ptr() for builder in builders]
    pointers = torch.tensor([addresses, states, accepted], dtype=torch.int64, device=tables[0].device)
    return States(groups, ids, builders, addresses, pointers)


class TargetReplay:
    """What one model's steps need instead of a build."""

    def __init__(self, state: Any) -> None:
        """`state` is vLLM's MambaHybridModelState; whether this applies to it is decided here, once."""
        self.applies = ENABLED and applies(state)
        self.states: States | None = None

    def refresh(
        self, batch: Any, *, full: bool, capture: bool, groups: Groups, block_tables: Sequence[Any], accepted: Any
    ) -> bool:
        """Write what this step's graph reads.  False if the release has to build.

        A capture is always built, but first addresses are taken and the launch is compiled: no served step does that.

        Args:
            batch: vLLM's InputBatch.
            full: The step replays a FULL graph.
            capture: Its metadata is to be captured in one.
            groups: The model runner's.
            block_tables: [rows with padding, blocks] int32 of each KV group.
            accepted: [requests] int32, tokens that each request's last draft emitted.
        """
        if not (self.applies and (full or capture)):
            return False
        if self.states is None or not self.states.are_of(groups, block_tables):
            self.states = find(groups, block_tables)
        if self.states is None or not self.states.fit(batch, capture=capture):
            return False
        self.states.write(batch, block_tables, accepted)
        return not capture
