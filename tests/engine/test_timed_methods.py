"""The GPU campaign asks an engine and times its steps by methods of vLLM: both releases have them, by these names."""

import ast
import functools

import pytest
import wheels

pytestmark = pytest.mark.wheels

GPU = "vllm/v1/worker/gpu"
METHODS = [
    (f"{GPU}/spec_decode/dflash/speculator.py", "DFlashSpeculator", {"propose", "_generate_draft"}),
    (f"{GPU}/cudagraph_utils.py", "CudaGraphManager", {"run_fullgraph"}),
    (
        f"{GPU}/model_runner.py",
        "GPUModelRunner",
        {"prepare_inputs", "prepare_attn", "execute_model", "sample_tokens", "sample", "postprocess_sampled"},
    ),
    (
        f"{GPU}/model_states/mamba_hybrid.py",
        "MambaHybridModelState",
        {"preprocess_state", "prepare_attn", "postprocess_state"},
    ),
    ("vllm/v1/engine/llm_engine.py", "LLMEngine", {"add_request", "step", "has_unfinished_requests"}),
    ("vllm/v1/engine/output_processor.py", "OutputProcessor", {"process_outputs"}),
    ("vllm/v1/core/sched/scheduler.py", "Scheduler", {"schedule", "update_from_output"}),
]


@functools.cache
def module(line: str, path: str) -> ast.Module:
    return ast.parse(wheels.source(line, path))


def classes(line: str, path: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.walk(module(line, path)) if isinstance(node, ast.ClassDef)}


def methods(of: ast.ClassDef) -> set[str]:
    return {node.name for node in of.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("line", wheels.LINES)
@pytest.mark.parametrize(("path", "name", "wanted"), METHODS, ids=[name for _, name, _ in METHODS])
def test_a_release_has_the_methods_that_are_timed(line: str, path: str, name: str, wanted: set[str]) -> None:
    assert wanted - methods(classes(line, path)[name]) == set()


@pytest.mark.parametrize("line", wheels.LINES)
def test_both_drafters_propose_alike_and_replay_their_graph_through_an_attribute_of_the_speculator(line: str) -> None:
    dflash, dspark = (classes(line, f"{GPU}/spec_decode/{method}/speculator.py") for method in ("dflash", "dspark"))
    (speculator,) = dspark.values()
    assert [ast.unparse(base) for base in speculator.bases] == ["DFlashSpeculator"]
    assert "propose" not in methods(speculator)
    calls = [ast.unparse(node.func) for node in ast.walk(dflash["DFlashSpeculator"]) if isinstance(node, ast.Call)]
    assert "self.query_cudagraph_manager.run_fullgraph" in calls


@pytest.mark.parametrize("line", wheels.LINES)
def test_an_engine_takes_the_settings_that_let_several_share_a_device(line: str) -> None:
    llm = classes(line, "vllm/entrypoints/llm.py")["LLM"]
    (init,) = (node for node in llm.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    named = {argument.arg for argument in [*init.args.args, *init.args.kwonlyargs]}
    assert {"kv_cache_memory_bytes", "gpu_memory_utilization", "attention_config", "compilation_config"} <= named
