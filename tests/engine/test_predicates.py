"""The rules of the optimizations, as truth tables; and on 0.33.0 upstream's own, from its files."""

import ast
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import wheels

from specdecode_engine import first_step, prefix_tail, replay, shared_mamba, splitkv, target_replay, toggles
from specdecode_engine.errors import Refused
from specdecode_engine.splitkv import NOT_SPLIT, Split


@pytest.mark.parametrize(
    ("method", "drops"),
    [
        ("eagle", True),
        ("eagle3", True),
        ("mtp", True),
        ("dflash", False),
        ("dspark", False),
        ("an_unknown_one", True),
        (None, True),
    ],
)
def test_only_drafters_whose_tail_is_good_keep_it(method: str | None, drops: bool) -> None:
    assert prefix_tail.needs_drop(method, enabled=True) is drops
    assert prefix_tail.needs_drop(method, enabled=False) is True


@pytest.mark.parametrize("full_graph", [True, False])
@pytest.mark.parametrize("cp_size", [1, 2])
@pytest.mark.parametrize("flags", [f for n in range(4) for f in itertools.product([True, False, None, 1], repeat=n)])
def test_a_rebuild_is_skipped_only_if_all_say_so(full_graph: bool, cp_size: int, flags: tuple[object, ...]) -> None:
    skipped = replay.may_skip(full_graph=full_graph, flags=list(flags), context_parallel_size=cp_size)
    assert skipped is (full_graph and cp_size == 1 and len(flags) > 0 and all(flag is True for flag in flags))


def speculator(*builders: Any, cp_size: int = 1, fused: bool = True, pcp: object = None) -> Any:
    groups = [[SimpleNamespace(get_metadata_builder=lambda b=builder: b)] for builder in builders]
    return SimpleNamespace(
        attn_groups=groups,
        block_tables=SimpleNamespace(cp_size=cp_size),
        use_fused_multi_step_decode=fused,
        pcp_manager=pcp,
    )


def test_a_builder_that_says_nothing_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "ENABLED", True)
    says = SimpleNamespace(supports_skip_draft_rebuild=True)
    assert replay.discards_rebuild(speculator(says), full_graph=True)
    assert not replay.discards_rebuild(speculator(says, SimpleNamespace()), full_graph=True)
    monkeypatch.setattr(replay, "ENABLED", False)
    assert not replay.discards_rebuild(speculator(says), full_graph=True)


class DeepseekSparseSWAMetadataBuilder: ...


class TritonAttentionMetadataBuilder:
    def __init__(self, rswa_window: int | None) -> None:
        self.rswa_window = rswa_window


class DerivedBuilder(TritonAttentionMetadataBuilder): ...


@pytest.mark.parametrize(
    ("builders", "settings", "refreshed"),
    [
        ([DeepseekSparseSWAMetadataBuilder()], {}, True),
        ([DeepseekSparseSWAMetadataBuilder(), TritonAttentionMetadataBuilder(None)], {}, True),
        ([TritonAttentionMetadataBuilder(64)], {}, False),
        ([DerivedBuilder(None)], {}, False),
        ([object()], {}, False),
        ([], {}, False),
        ([DeepseekSparseSWAMetadataBuilder()], {"cp_size": 2}, False),
        ([DeepseekSparseSWAMetadataBuilder()], {"fused": False}, False),
        ([DeepseekSparseSWAMetadataBuilder()], {"pcp": object()}, False),
    ],
)
def test_the_first_step_is_refreshed_in_the_graph_only_where_that_is_complete(
    builders: list[object], settings: dict[str, Any], refreshed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_step, "ENABLED", True)
    assert first_step.is_refreshed_in_graph(speculator(*builders, **settings)) is refreshed
    monkeypatch.setattr(first_step, "ENABLED", False)
    assert first_step.is_refreshed_in_graph(speculator(*builders, **settings)) is False


class Mamba2AttentionMetadataBuilder(SimpleNamespace): ...


class GDNAttentionMetadataBuilder(SimpleNamespace): ...


@pytest.mark.parametrize(
    ("builder", "enabled", "shares"),
    [
        (Mamba2AttentionMetadataBuilder(use_replayssm=False), True, True),
        (Mamba2AttentionMetadataBuilder(use_replayssm=False), False, False),
        (Mamba2AttentionMetadataBuilder(use_replayssm=True), True, False),
        (GDNAttentionMetadataBuilder(use_replayssm=False), True, False),
    ],
)
def test_only_mamba_2_without_replayssm_shares_its_metadata(
    builder: object, enabled: bool, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_mamba, "ENABLED", enabled)
    assert shared_mamba.may_share(builder) is shares


class MambaHybridModelState(SimpleNamespace): ...


def model_state(*, kind: type[SimpleNamespace] = MambaHybridModelState, **changed: object) -> Any:
    """One to which `skip-target-rebuild` applies, but for what is changed."""
    settings = {"method": "dspark", "kv_transfer_config": None, "mode": "align", "dcp": 1, "pcp": 1, **changed}
    config = SimpleNamespace(
        speculative_config=settings["method"] and SimpleNamespace(method=settings["method"]),
        kv_transfer_config=settings["kv_transfer_config"],
        cache_config=SimpleNamespace(mamba_cache_mode=settings["mode"]),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=settings["dcp"], prefill_context_parallel_size=settings["pcp"]
        ),
    )
    return kind(vllm_config=config)


@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_a_target_is_not_rebuilt_where_only_the_graph_reads_it(method: str) -> None:
    assert target_replay.applies(model_state(method=method))


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": SimpleNamespace},
        {"method": None},
        {"method": "mtp"},
        {"method": "an_unknown_one"},
        {"kv_transfer_config": "a connector"},
        {"mode": "none"},
        {"mode": "all"},
        {"dcp": 2},
        {"pcp": 2},
    ],
    ids=str,
)
def test_a_target_is_rebuilt_wherever_somebody_else_may_read_it(changed: dict[str, Any]) -> None:
    assert not target_replay.applies(model_state(**changed))


@pytest.mark.parametrize(
    ("changed", "uniform"),
    [({}, True), ({"has_prefill": True}, False), ({"max_query_len": 4}, False), ({"longest_query": 5}, False)],
    ids=str,
)
def test_a_batch_of_decodes_is_one_without_prefill_or_unknown_lengths(changed: dict[str, Any], uniform: bool) -> None:
    asked = {"max_query_len": None, "has_prefill": False, "longest_query": 4, **changed}
    batch = SimpleNamespace(**asked, num_scheduled_tokens=SimpleNamespace(max=lambda: asked["longest_query"]))
    assert target_replay.is_uniform_decode(batch, longest=4) is uniform


def test_nothing_is_refreshed_when_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_replay, "ENABLED", False)
    off = target_replay.TargetReplay(model_state())
    assert not off.refresh(None, full=True, capture=True, groups=[], block_tables=[], accepted=None)
    assert off.states is None


def launch(stock: bool, split: Split, **changed: Any) -> tuple[bool, int]:
    call: dict[str, Any] = {
        "q": SimpleNamespace(shape=(8, 4, 32)),
        "num_seqs": 2,
        "max_seqlen_q": 4,
        "segments": 16,
        "scratch": SimpleNamespace(numel=lambda: 8 * 4 * 16 * 32),
        "head_size_padded": 32,
        "window": 1024,
        "excluded": False,
        "batch_invariant": False,
    }
    return split.launch(stock, **{**call, **changed})


def test_a_uniform_short_batch_with_scratch_is_split_over_its_window() -> None:
    assert launch(False, Split(4, 2)) == (True, 1024)
    assert launch(False, Split(4, 2), window=0) == (True, 0)


@pytest.mark.parametrize("stock", [True, False])
@pytest.mark.parametrize("why", ["excluded", "batch_invariant"])
def test_excluded_masks_and_batch_invariance_keep_the_releases_launch(stock: bool, why: str) -> None:
    assert launch(stock, Split(4, 2), **{why: True}) == (stock, NOT_SPLIT)


@pytest.mark.parametrize(
    "changed",
    [
        {"max_seqlen_q": 5, "q": SimpleNamespace(shape=(10, 4, 32))},
        {"num_seqs": 3, "q": SimpleNamespace(shape=(12, 4, 32))},
        {"q": SimpleNamespace(shape=(7, 4, 32))},
        {"head_size_padded": 64},
        {"scratch": None},
        {"segments": None},
    ],
    ids=["long queries", "many sequences", "not uniform", "a drafter's wider head", "no scratch", "no segments"],
)
def test_what_does_not_fit_runs_on_the_2d_launch(changed: dict[str, Any]) -> None:
    assert launch(True, Split(4, 2), **changed) == (False, NOT_SPLIT)


class Config(SimpleNamespace):
    @classmethod
    def of(cls, method: str, *, tokens: int = 3, parallel: bool = False) -> "Config":
        return cls(method=method, num_speculative_tokens=tokens, parallel_drafting=parallel)


@pytest.mark.parametrize("method", ["eagle", "eagle3", "mtp", "draft_model", "ngram", "suffix", "an_unknown_one", None])
def test_no_other_method_is_opted_in(method: str | None) -> None:
    assert not splitkv.opted_in(SimpleNamespace(method=method))
    assert not splitkv.opted_in(None)


@pytest.mark.parametrize("method", ["dflash", "dspark"])
def test_dflash_and_dspark_are_opted_in(method: str) -> None:
    assert splitkv.opted_in(Config.of(method))


@pytest.mark.parametrize("on", [True, False])
def test_switched_off_no_builder_splits(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    monkeypatch.setattr(toggles, "enabled", lambda name: on or name != "splitkv-decode")
    monkeypatch.setattr(splitkv, "_multiprocessors", lambda _: 132)
    monkeypatch.setattr(splitkv, "_provision", lambda *_, **__: None)
    builder = TritonAttentionMetadataBuilder(None)
    builder.__dict__.update(
        kv_cache_spec=SimpleNamespace(num_kv_heads=2, head_size=32), device="cpu", decode_cudagraph_enabled=False
    )
    config = SimpleNamespace(speculative_config=Config.of("dspark"), scheduler_config=SimpleNamespace(max_num_seqs=4))
    admitted = splitkv.admission(builder, config, cap=8, int4=False)
    assert admitted == (Split(max_query_len=4, max_seqs=4) if on else None)


@pytest.mark.parametrize(
    ("tokens", "parallel", "cap", "length"), [(3, False, 4, 4), (3, True, 8, 7), (3, True, 4, 4), (7, False, 8, 8)]
)
def test_the_longest_query_is_the_bonus_token_and_the_draft(tokens: int, parallel: bool, cap: int, length: int) -> None:
    assert splitkv.query_len(Config.of("dflash", tokens=tokens, parallel=parallel), cap) == length


@pytest.mark.parametrize(
    ("kv_heads", "sizes", "limit", "seqs"),
    [(2, None, 256, 66), (2, [1, 2, 4], 256, 4), (8, None, 256, 16), (8, [1, 8, 16, 32], 256, 16), (200, None, 9, 1)],
)
def test_sequences_are_split_while_multiprocessors_idle(
    kv_heads: int, sizes: list[int] | None, limit: int, seqs: int
) -> None:
    assert splitkv.max_seqs(multiprocessors=132, kv_heads=kv_heads, capture_sizes=sizes, max_num_seqs=limit) == seqs


def function(release: str, path: str, name: str) -> ast.FunctionDef:
    """The one function or method of that name in a file of the release."""
    nodes = ast.walk(ast.parse(wheels.source(release, path)))
    (found,) = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name]
    return found


def calls(node: ast.AST) -> list[str]:
    """Names of what is called, in the order of the source."""
    found = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    found.sort(key=lambda call: (call.lineno, call.col_offset))
    return [call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func) for call in found]


SPEC = "vllm/v1/worker/gpu/spec_decode"


@pytest.mark.wheels
def test_upstream_refreshes_before_every_fused_step_and_builds_none_for_a_full_replay() -> None:
    path = f"{SPEC}/target_dependent_ar/speculator.py"
    (loop,) = [n for n in ast.walk(function("0.33.0", path, "_generate_fused_drafts")) if isinstance(n, ast.For)]
    order = [
        c for c in calls(loop) if c in ("compute_slot_mappings", "_update_draft_decode_metadata", "_generate_draft")
    ]
    assert order == ["compute_slot_mappings", "_update_draft_decode_metadata", "_generate_draft"]
    fused = function("0.33.0", path, "_fused_multi_step_decode")
    full = next(n for n in ast.walk(fused) if isinstance(n, ast.If) and "CUDAGraphMode.FULL" in ast.unparse(n.test))
    assert isinstance(full.body[-1], ast.Return)
    assert "run_fullgraph" in calls(full)
    assert "_build_uniform_attn_metadata" not in calls(full)
    update = function("0.33.0", "vllm/v1/attention/backends/mla/sparse_swa.py", "update_draft_decode_metadata")
    assert calls(update).index("ge") < calls(update).index("compute_token_to_req_indices")


@pytest.mark.wheels
@pytest.mark.parametrize(
    ("method", "drops"),
    [("eagle", True), ("eagle3", True), ("mtp", True), ("dflash", False), ("dspark", False), ("unknown", False)],
)
def test_upstreams_predicate_is_ours(method: str, drops: bool) -> None:
    path = "vllm/config/speculative.py"
    names = ("use_eagle", "needs_eagle_block_drop", "use_eagle_block_drop", "use_dflash", "use_dspark")
    body = "\n".join(ast.unparse(function("0.33.0", path, name)) for name in names)
    made: dict[str, Any] = {}
    exec(body, made)
    config = type("Config", (), {name: made[name] for name in names})()
    config.method, config.disable_eagle_block_drop = method, False
    assert config.use_eagle_block_drop() is drops
    if config.use_eagle():
        assert prefix_tail.needs_drop(method, enabled=True) is drops


@pytest.mark.wheels
def test_upstream_builds_no_draft_metadata_before_a_full_dflash_replay() -> None:
    propose = function("0.33.0", f"{SPEC}/dflash/speculator.py", "propose")
    (guard,) = [
        node
        for node in ast.walk(propose)
        if isinstance(node, ast.If) and "_build_uniform_attn_metadata" in calls(ast.Module(node.body, []))
    ]
    assert "is_full_cudagraph = batch_desc.cg_mode == CUDAGraphMode.FULL" in ast.unparse(propose)
    for full, supported in itertools.product([True, False], repeat=2):
        asked = {"is_full_cudagraph": full, "self": SimpleNamespace(supports_decode_metadata_update=supported)}
        assert eval(ast.unparse(guard.test), asked) is not (full and supported)


def test_a_switch_is_checked_against_the_line_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    line = SimpleNamespace(switchable={"splitkv-decode": True, "telemetry": False})
    monkeypatch.setattr("specdecode_engine.manifests.of_installed_release", lambda: line)
    monkeypatch.setenv(toggles.VARIABLE, "splitkv-decode")
    assert toggles.disabled.__wrapped__() == {"splitkv-decode"}
    monkeypatch.setenv(toggles.VARIABLE, "telemetry")
    with pytest.raises(Refused):
        toggles.disabled.__wrapped__()
