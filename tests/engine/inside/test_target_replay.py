"""`skip-target-rebuild`: what a FULL graph reads is the same as after the release's build, without it."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import mamba
import numpy as np
import pytest
import torch
from attention import DEVICE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mamba import BLOCKS, MAX_REQS, QUERY, SPEC_TOKENS
from vllm.config.compilation import CUDAGraphMode
from vllm.v1.attention.backends.mamba2_attn import Mamba2AttentionBackend
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionMetadataBuilder
from vllm.v1.worker.gpu.model_states.mamba_hybrid import MambaHybridModelState
from vllm.v1.worker.utils import AttentionGroup

from specdecode_engine import target_replay

UNTOUCHED = -7
MAMBA_GROUPS = (0, 2, 3)
"""KV groups of Mamba layers; group 1 is of attention."""


def triton_builder() -> TritonAttentionMetadataBuilder:
    made = object.__new__(TritonAttentionMetadataBuilder)
    scratch = {f"softmax_segm_{name}": torch.zeros(1, device=DEVICE) for name in ("output", "max", "expsum")}
    settings = {"seq_threshold_3D": 8, "num_par_softmax_segments": 16, "max_seqs_64_segments": 0}
    made.__dict__.update(scratch, **settings, rswa_window=None, split=None)
    return made


class Model:
    """A model state with its KV groups and the model runner's persistent inputs, without an engine round them."""

    def __init__(self) -> None:
        config = mamba.config(CUDAGraphMode.FULL)
        config.kv_transfer_config = None
        self.state = object.__new__(MambaHybridModelState)
        self.state.__dict__.update(
            vllm_config=config,
            model_config=SimpleNamespace(max_model_len=mamba.BLOCK_SIZE * (BLOCKS - SPEC_TOKENS)),
            num_accepted_tokens_gpu=torch.zeros(MAX_REQS, dtype=torch.int32, device=DEVICE),
            recoverssm=None,
            _align_mode=True,
            _mamba_spec=mamba.spec(),
            _mamba_group_ids=list(MAMBA_GROUPS),
        )
        self.state.target_replay = target_replay.TargetReplay(self.state)
        self.builders = [mamba.builder(CUDAGraphMode.FULL) for _ in MAMBA_GROUPS]
        self.attention = triton_builder()
        self.groups = [[self._group(id)] for id in range(1 + len(MAMBA_GROUPS))]
        self.tables = [torch.zeros(MAX_REQS, BLOCKS, dtype=torch.int32, device=DEVICE) for _ in self.groups]
        self.slots = torch.zeros(len(self.groups), MAX_REQS * QUERY, dtype=torch.int64, device=DEVICE)
        self.seq_lens = torch.zeros(MAX_REQS, dtype=torch.int32, device=DEVICE)
        self.query_start_loc = torch.zeros(MAX_REQS + 1, dtype=torch.int32, device=DEVICE)
        self.kv_cache = SimpleNamespace(kv_cache_groups=self.groups)

    def _group(self, id: int) -> AttentionGroup:
        if id in MAMBA_GROUPS:
            builder, backend = self.builders[MAMBA_GROUPS.index(id)], Mamba2AttentionBackend
        else:
            builder, backend = self.attention, TritonAttentionBackend
        return AttentionGroup(backend, [f"layer {id}"], mamba.spec(), id, metadata_builders=[builder])

    def load(self, batch: SimpleNamespace) -> SimpleNamespace:
        """Fill the persistent inputs; vLLM's InputBatch of that."""
        rows = len(batch.seq_lens)
        gen = torch.Generator().manual_seed(batch.seed)
        for table in self.tables:
            table[:] = torch.randint(1, 999, table.shape, generator=gen, dtype=torch.int32)
        self.state.num_accepted_tokens_gpu[:] = torch.randint(1, 1 + QUERY, (MAX_REQS,), generator=gen)
        self.seq_lens.zero_()
        self.seq_lens[:rows] = torch.tensor(batch.seq_lens, dtype=torch.int32)
        starts = np.full(MAX_REQS + 1, sum(batch.query_lens), dtype=np.int32)
        starts[: rows + 1] = np.cumsum([0, *batch.query_lens])
        self.query_start_loc[:] = torch.from_numpy(starts)
        padded = rows + batch.pads
        bound = np.zeros(padded, dtype=np.int32)
        bound[:rows] = batch.seq_lens
        return SimpleNamespace(
            num_reqs=rows,
            num_reqs_after_padding=padded,
            num_tokens=int(starts[rows]),
            num_tokens_after_padding=padded * QUERY,
            num_scheduled_tokens=np.array(batch.query_lens, dtype=np.int32),
            num_draft_tokens_per_req=np.array(batch.query_lens, dtype=np.int32) - 1,
            query_start_loc=self.query_start_loc[: padded + 1],
            query_start_loc_np=starts[: padded + 1],
            max_query_len=None,
            seq_lens=self.seq_lens[:padded],
            seq_lens_cpu_upper_bound=torch.from_numpy(bound),
            idx_mapping=torch.tensor(batch.requests, device=DEVICE),
            is_prefilling_np=np.array(batch.prefilling),
            has_prefill=any(batch.prefilling),
            prefill_runs_as_decode_np=None,
            dcp_local_seq_lens=None,
            positions=None,
            prompt_lens=None,
        )

    def prepare(self, batch: SimpleNamespace, mode: CUDAGraphMode = CUDAGraphMode.FULL, **more: Any) -> dict[str, Any]:
        """One step's metadata."""
        inputs = self.load(batch)
        rows = inputs.num_reqs_after_padding if mode == CUDAGraphMode.FULL else inputs.num_reqs
        tables = tuple(table[:rows] for table in self.tables)
        return self.state.prepare_attn(inputs, mode, tables, self.slots, self.groups, self.kv_cache, **more)

    def buffers(self) -> list[torch.Tensor]:
        """What the graph reads of the builders' own."""
        own = [(builder.state_indices_tensor_d, builder.decode_num_accepted_tokens) for builder in self.builders]
        return [buffer for pair in own for buffer in pair]

    def wipe(self) -> None:
        for buffer in self.buffers():
            buffer.fill_(UNTOUCHED)


@st.composite
def decodes(draw: st.DrawFn) -> SimpleNamespace:
    """Verified drafts, and graph padding after them; some requests may have fewer drafts."""
    rows = draw(st.integers(1, MAX_REQS))
    query_lens = draw(st.lists(st.integers(1, QUERY), min_size=rows, max_size=rows))
    return SimpleNamespace(
        query_lens=query_lens,
        seq_lens=[
            length + draw(st.integers(0, mamba.BLOCK_SIZE * (BLOCKS - SPEC_TOKENS - 1))) for length in query_lens
        ],
        prefilling=[False] * rows,
        requests=draw(st.permutations(range(MAX_REQS)))[:rows],
        pads=draw(st.integers(0, MAX_REQS - rows)),
        seed=draw(st.integers(0, 99)),
    )


def batch(**changed: Any) -> SimpleNamespace:
    """Two verified drafts, and one row of padding."""
    two = {"query_lens": [QUERY] * 2, "seq_lens": [40, 50], "prefilling": [False] * 2, "requests": [5, 3]}
    return SimpleNamespace(**{**two, "pads": 1, "seed": 1, **changed})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setattr(target_replay, "ENABLED", True)
    return Model()


@given(batch=decodes(), again=decodes())
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_every_buffer_has_the_value_of_the_releases_build(batch: SimpleNamespace, again: SimpleNamespace) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(target_replay, "ENABLED", False)
        built = Model()
        patched.setattr(target_replay, "ENABLED", True)
        refreshed = Model()
    for step in (batch, again):
        assert built.prepare(step) != {}
        assert refreshed.prepare(step) == {}
        assert all(map(torch.equal, built.buffers(), refreshed.buffers()))


def test_what_the_releases_build_points_at_is_there_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_replay, "ENABLED", False)
    model = Model()
    inputs = [*model.tables, model.slots, model.seq_lens, model.query_start_loc]
    scratch = [tensor for tensor in vars(model.attention).values() if isinstance(tensor, torch.Tensor)]
    stays = {tensor.untyped_storage().data_ptr() for tensor in [*inputs, *scratch, *model.buffers()]}
    for metadata in model.prepare(batch()).values():
        held = {field.name: getattr(metadata, field.name) for field in fields(metadata)}
        tensors = {name: value for name, value in held.items() if isinstance(value, torch.Tensor) and value.numel()}
        assert {name for name, value in tensors.items() if value.untyped_storage().data_ptr() not in stays} == set()


@pytest.mark.parametrize(
    ("changed", "mode", "more"),
    [
        ({"prefilling": [False, True]}, CUDAGraphMode.FULL, {}),
        ({"query_lens": [QUERY, QUERY + 1]}, CUDAGraphMode.FULL, {}),
        ({}, CUDAGraphMode.NONE, {}),
        ({}, CUDAGraphMode.PIECEWISE, {}),
        ({}, CUDAGraphMode.FULL, {"for_capture": True}),
    ],
    ids=["prefill", "long query", "eager", "piecewise", "capture"],
)
def test_any_other_step_is_built(
    changed: dict[str, Any], mode: CUDAGraphMode, more: dict[str, Any], model: Model
) -> None:
    assert model.prepare(batch()) == {}
    model.wipe()
    assert model.prepare(batch(**changed), mode, **more).keys() == {f"layer {id}" for id in range(len(model.groups))}


def test_a_capture_takes_the_addresses_that_replays_use(model: Model) -> None:
    model.prepare(batch(), CUDAGraphMode.NONE, for_capture=True)
    taken = model.state.target_replay.states
    assert model.prepare(batch()) == {}
    assert taken is not None
    assert model.state.target_replay.states is taken


class OtherBuilder(TritonAttentionMetadataBuilder): ...


def test_another_builder_is_built(model: Model) -> None:
    model.attention.__class__ = OtherBuilder
    assert model.prepare(batch()) != {}


def test_r_swa_and_mapped_blocks_are_built(model: Model) -> None:
    model.attention.rswa_window = 64
    assert target_replay.find(model.groups, model.tables) is None
    model.attention.rswa_window = None
    assert target_replay.find(model.groups, model.tables) is not None
    model.groups[1][0].kernel_block_size = 16
    assert target_replay.find(model.groups, model.tables) is None


def test_tables_that_are_laid_out_otherwise_are_built(model: Model) -> None:
    model.tables[2] = torch.zeros(MAX_REQS, BLOCKS + 1, dtype=torch.int32, device=DEVICE)
    assert target_replay.find(model.groups, model.tables) is None


def test_new_tables_and_builders_are_noticed(model: Model) -> None:
    assert model.prepare(batch()) == {}
    before = [buffer.clone() for buffer in model.buffers()]
    model.tables = [table.clone() for table in model.tables]
    model.wipe()
    assert model.prepare(batch()) == {}
    assert all(map(torch.equal, before, model.buffers()))
    old, model.builders = model.builders, [mamba.builder(CUDAGraphMode.FULL) for _ in MAMBA_GROUPS]
    model.groups = [[model._group(id)] for id in range(len(model.groups))]
    assert model.prepare(batch()) == {}
    assert all(map(torch.equal, before, model.buffers()))
    assert old[0] is not model.builders[0]
