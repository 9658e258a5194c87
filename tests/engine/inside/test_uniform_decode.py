"""`uniform-mamba-metadata`: with the shortcut and without it, every field of the metadata has the same value."""

from types import SimpleNamespace
from typing import Any

import mamba
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.config.compilation import CUDAGraphMode

from specdecode_engine import uniform_decode


def build(batch: SimpleNamespace, mode: CUDAGraphMode) -> Any:
    return mamba.builder(mode)._compute_common_metadata(mamba.common(batch), **mamba.drafted(batch))


@given(batch=mamba.batches(), mode=st.sampled_from([CUDAGraphMode.NONE, CUDAGraphMode.FULL]))
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_every_field_has_the_same_value(batch: SimpleNamespace, mode: CUDAGraphMode) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(uniform_decode, "ENABLED", False)
        full = build(batch, mode)
        patched.setattr(uniform_decode, "ENABLED", True)
        short = build(batch, mode)
    assert mamba.differing(full, short) == []


def test_a_uniform_decode_batch_takes_the_shortcut(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.attention.backends import mamba_attn

    monkeypatch.setattr(uniform_decode, "ENABLED", True)
    monkeypatch.setattr(mamba_attn, "split_decodes_and_prefills", lambda *_, **__: pytest.fail("classified row by row"))
    count = 4
    batch = SimpleNamespace(
        query_start_loc=torch.arange(count + 1, dtype=torch.int32) * mamba.QUERY,
        query_lens=[mamba.QUERY] * count,
        seq_lens=torch.full((count,), 50, dtype=torch.int32),
        prefilling=torch.zeros(count, dtype=torch.bool),
        block_tables=[torch.ones(count, mamba.BLOCKS, dtype=torch.int32)],
        accepted=torch.ones(count, dtype=torch.int32),
        drafts=None,
        spec=True,
    )
    assert build(batch, CUDAGraphMode.NONE).num_decodes == count
