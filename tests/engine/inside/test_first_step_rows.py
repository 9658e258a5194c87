"""`mtp-fused-metadata`: what the graph refreshes before its first step is what the eager build would have written."""

from types import SimpleNamespace

import pytest
import torch
from attention import DEVICE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.mla import sparse_swa
from vllm.v1.attention.backends.mla.sparse_swa import DeepseekSparseSWAMetadataBuilder

from specdecode_engine import first_step, manifests

WINDOW, BLOCK_SIZE, CAPACITY = 48, 16, 16
FIELDS = ("is_valid_token", "token_to_req_indices", "decode_swa_indices", "decode_swa_lens")

pytestmark = pytest.mark.skipif(
    manifests.installed_release() != "0.30.0", reason="0.33.0 refreshes the rows itself: test_predicates.py"
)


def builder() -> DeepseekSparseSWAMetadataBuilder:
    """A builder without an engine round it: what build and update read, and nothing else."""
    made = object.__new__(DeepseekSparseSWAMetadataBuilder)
    made.__dict__.update(
        device=DEVICE,
        decode_threshold=1,
        block_size=BLOCK_SIZE,
        window_size=WINDOW,
        max_image_tokens=0,
        is_dspark=False,
        noncausal_index_width=0,
        decode_swa_indices_noncausal=None,
        _layer_types=set(),
        token_to_req_indices=torch.full((CAPACITY,), -7, dtype=torch.int32, device=DEVICE),
        decode_swa_indices=torch.full((CAPACITY, 1, WINDOW), -7, dtype=torch.int32, device=DEVICE),
        decode_swa_lens=torch.full((CAPACITY,), -7, dtype=torch.int32, device=DEVICE),
        is_valid_token=torch.ones(CAPACITY, dtype=torch.bool, device=DEVICE),
    )
    return made


@st.composite
def batches(draw: st.DrawFn) -> SimpleNamespace:
    """A draft step of `real` requests in a graph of `padded`; some slots are pads, past the length of the model."""
    padded = draw(st.integers(1, 9))
    real = draw(st.integers(1, padded))
    seq_lens = draw(st.lists(st.integers(1, 200), min_size=real, max_size=real))
    pads = draw(st.lists(st.booleans(), min_size=real, max_size=real))
    slots = [-1 if pad else 7 + row for row, pad in enumerate(pads)] + [-1] * (padded - real)
    gen = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    return SimpleNamespace(
        padded=padded,
        query_start_loc=torch.tensor([min(row, real) for row in range(padded + 1)], dtype=torch.int32),
        seq_lens=torch.tensor(seq_lens + [0] * (padded - real), dtype=torch.int32),
        slot_mapping=torch.tensor(slots, dtype=torch.int64),
        block_table=torch.randint(1, 99, (padded, 16), generator=gen, dtype=torch.int32),
    )


def common(batch: SimpleNamespace) -> CommonAttentionMetadata:
    return CommonAttentionMetadata(
        query_start_loc=batch.query_start_loc.to(DEVICE),
        query_start_loc_cpu=batch.query_start_loc,
        seq_lens=batch.seq_lens.to(DEVICE),
        num_reqs=batch.padded,
        num_actual_tokens=batch.padded,
        max_query_len=1,
        max_seq_len=256,
        block_table_tensor=batch.block_table.to(DEVICE),
        slot_mapping=batch.slot_mapping.to(DEVICE),
        seq_lens_cpu_upper_bound=batch.seq_lens,
        is_prefilling=torch.zeros(batch.padded, dtype=torch.bool),
    )


def capture(batch: SimpleNamespace) -> tuple[DeepseekSparseSWAMetadataBuilder, object]:
    """Metadata as a capture makes it: a full dummy batch of the same size, on buffers that replays refill."""
    made = builder()
    dummy = SimpleNamespace(
        padded=batch.padded,
        query_start_loc=torch.arange(batch.padded + 1, dtype=torch.int32),
        seq_lens=torch.ones(batch.padded, dtype=torch.int32),
        slot_mapping=torch.full((batch.padded,), -1, dtype=torch.int64),
        block_table=torch.zeros_like(batch.block_table),
    )
    return made, made.build(0, common(dummy))


@given(batch=batches())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_the_refresh_in_the_graph_equals_the_eager_build(batch: SimpleNamespace) -> None:
    eager = builder().build(0, common(batch))
    made, captured = capture(batch)
    for name, source in {
        "query_start_loc": batch.query_start_loc,
        "seq_lens": batch.seq_lens,
        "slot_mapping": batch.slot_mapping,
        "block_table": batch.block_table,
    }.items():
        getattr(captured, name).copy_(source)
    made.update_draft_decode_metadata(captured)
    for name in FIELDS:
        assert torch.equal(getattr(captured, name), getattr(eager, name)), name


def test_switched_off_the_update_is_the_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = SimpleNamespace(padded=2, block_table=torch.zeros(2, 16, dtype=torch.int32))
    made, captured = capture(batch)
    monkeypatch.setattr(first_step, "ENABLED", False)
    monkeypatch.setattr(first_step, "refresh_rows", lambda _: pytest.fail("ran although switched off"))
    assert sparse_swa.first_step is first_step
    made.update_draft_decode_metadata(captured)
