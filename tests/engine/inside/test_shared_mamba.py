"""`shared-mamba-metadata`: a group that takes over the first one's metadata has what its own build would give."""

from types import SimpleNamespace
from typing import Any

import mamba
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.config.compilation import CUDAGraphMode

from specdecode_engine import shared_mamba

MODES = st.sampled_from([CUDAGraphMode.NONE, CUDAGraphMode.FULL])


def buffers(builder: Any) -> list[torch.Tensor]:
    """What a CUDA graph reads of a builder's own."""
    return [builder.state_indices_tensor_d, builder.decode_num_accepted_tokens]


@given(batch=mamba.batches(), mode=MODES, checkpoints=st.sampled_from([0, 1]))
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_every_field_and_buffer_has_the_value_of_the_groups_own_build(
    batch: SimpleNamespace, mode: CUDAGraphMode, checkpoints: int
) -> None:
    first, second, third, alone = (mamba.builder(mode, checkpoints) for _ in range(4))
    shared = first.build(0, mamba.common(batch, 0), **mamba.drafted(batch))
    for group, builder in ((1, second), (2, third)):
        common = mamba.common(batch, group)
        taken = builder.update_block_table(shared, common.block_table_tensor, common.slot_mapping)
        own = alone.build(0, common, **mamba.drafted(batch))
        assert mamba.differing(own, taken) == []
        assert all(map(torch.equal, buffers(alone), buffers(builder)))


@given(rows=st.integers(1, mamba.MAX_REQS), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_a_graph_is_captured_with_the_groups_own_buffers(rows: int, seed: int) -> None:
    gen = torch.Generator().manual_seed(seed)
    batch = SimpleNamespace(
        query_start_loc=torch.arange(rows + 1, dtype=torch.int32) * mamba.QUERY,
        query_lens=[mamba.QUERY] * rows,
        seq_lens=torch.ones(rows, dtype=torch.int32),
        prefilling=torch.zeros(rows, dtype=torch.bool),
        block_tables=[torch.randint(1, 99, (rows, mamba.BLOCKS), generator=gen, dtype=torch.int32) for _ in range(2)],
    )
    first, second, alone = (mamba.builder(CUDAGraphMode.FULL) for _ in range(3))
    common = mamba.common(batch, 1)
    shared = first.build_for_cudagraph_capture(mamba.common(batch, 0))
    taken = second.update_block_table(shared, common.block_table_tensor, common.slot_mapping)
    assert mamba.differing(alone.build_for_cudagraph_capture(common), taken) == []
    for captured, own in ((taken.state_indices_tensor_d, 0), (taken.num_accepted_tokens, 1)):
        assert captured.data_ptr() == buffers(second)[own].data_ptr()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("replayssm", [True, False])
def test_only_mamba_2_without_replayssm_shares(enabled: bool, replayssm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_mamba, "ENABLED", enabled)
    builder = mamba.builder(CUDAGraphMode.FULL)
    assert builder.supports_update_block_table is enabled
    builder.use_replayssm = replayssm
    assert shared_mamba.may_share(builder) is (enabled and not replayssm)
    derived = object.__new__(type("DerivedBuilder", (type(builder),), {}))
    derived.use_replayssm = False
    assert not shared_mamba.may_share(derived)
