"""Telemetry under the settings an engine is served with: parallel ranks, API servers, log stats, offline, restarts.

What the release decides is asked of the release's own code, taken from its files; the rest needs none of it.
"""

import __future__

import ast
import functools
import importlib
import itertools
import logging
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import wheels
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from specdecode_engine import attestation, manifests, overlay, start
from specdecode_engine.attestation import Attestation
from specdecode_engine.manifests import STOCK
from specdecode_engine.telemetry import ranks, worker
from specdecode_engine.telemetry.increments import Increments
from specdecode_engine.telemetry.recorder import Recorder

SCHEDULER = "vllm/v1/core/sched/scheduler.py"
LOGGERS = "vllm/v1/metrics/loggers.py"
ALWAYS = ("begin_step", "skip_step", "proposing", "drafting", "rebuilding", "graph_start", "step")
"""Hooks that a step has whether it is sampled or not."""

LAYOUTS = [(1, 1, 1), (2, 1, 1), (4, 2, 1), (2, 3, 2), (1, 4, 1)]
"""(tensor, pipeline, prefill context parallel)."""


def shipment(seconds: float = 0.5, samples: int = 1) -> bytes:
    """What a worker ships after `samples` propose calls of a batch of one."""
    counted = Increments()
    for _ in range(samples):
        counted.observe(0, 0, seconds)
    shipped = counted.drain(now=1.0)
    assert shipped is not None
    return shipped


def step(shipped: object = None, drafts: int = 0) -> SimpleNamespace:
    """A step's scheduler stats: `drafts` drafts of two tokens, the first of each accepted."""
    counted = SimpleNamespace(num_drafts=drafts, num_draft_tokens=2 * drafts, num_accepted_tokens_per_pos=[drafts, 0])
    return SimpleNamespace(specdecode=shipped, spec_decoding_stats=counted if drafts else None)


def parallel(tensor: int, pipeline: int, context: int) -> SimpleNamespace:
    return SimpleNamespace(
        world_size=tensor * pipeline * context,
        tensor_parallel_size=tensor,
        prefill_context_parallel_size=context,
    )


# --- the release's code --------------------------------------------------------------------------------------------


@pytest.fixture(params=wheels.LINES)
def line(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@functools.cache
def patched(release: str, path: str) -> ast.Module:
    """A file of the release with the telemetry patch."""
    manifest = manifests.load(release)
    stock = wheels.source(release, path).encode()
    if path not in manifest.hashes:
        return ast.parse(stock)
    names = frozenset({"telemetry"} & set(manifest.touching(path)))
    return ast.parse(overlay.contents(manifest, path, stock, STOCK, names))


def named(tree: ast.AST, *names: str) -> list[ast.stmt]:
    """The classes and functions of these names, in the order of the source."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name in names]


def run(body: list[ast.stmt], **known: object) -> dict[str, Any]:
    """Execute statements of the release with `known` names; annotations are not looked up."""
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module(body, []), "release", "exec", flags=flags, dont_inherit=True), known)
    return known


def hooks(tree: ast.AST) -> list[str]:
    """What a patched file takes of the worker's module, in the order of the source."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n).startswith("telemetry.")]
    return [
        ast.unparse(n).removeprefix("telemetry.") for n in sorted(found, key=lambda n: (n.lineno, -n.end_col_offset))
    ]  # type: ignore[operator]


@pytest.mark.wheels
def test_every_hook_of_the_patch_is_there_and_the_recorders_only_in_sampled_steps(line: str) -> None:
    paths = next(o.files for o in manifests.load(line).optimizations if o.name == "telemetry")
    for path in paths:
        tree = patched(line, path)
        guards = [
            n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "telemetry.step.sampled"
        ]
        guarded = [name for guard in guards for name in hooks(ast.Module(guard.body, []))]
        for name in hooks(tree):
            owner, _, attribute = name.rpartition("taken().")
            assert hasattr(Recorder if owner or name.startswith("taken().") else worker, attribute.split(".")[0]), name
            assert name in guarded or name.split(".")[0] in ALWAYS, (path, name)


@pytest.mark.wheels
def test_a_steps_hooks_are_called_in_the_order_in_which_the_recorder_expects_them(line: str) -> None:
    tree = patched(line, "vllm/v1/worker/gpu/model_runner.py")
    called = [name for name in hooks(tree) if name not in ("taken", "step", "step.sampled")]
    target = ["begin_step", "skip_step", "taken().prepared", "taken().forward_begins", "taken().forward_ends"]
    assert called == [*target, "proposing", "ship"]


def handed_out(release: str, log_stats: bool, specdecode: object, clients: list[int]) -> dict[int, SimpleNamespace]:
    """What the engine core sends to each API server after a step with that worker output."""
    tree = patched(release, SCHEDULER)
    (update,) = named(tree, "update_from_output")
    (hand_out,) = [
        node for node in ast.walk(update) if isinstance(node, ast.If) and "make_stats" in ast.dump(node.test)
    ]
    (early,) = [
        n for n in ast.walk(named(tree, "make_stats")[0]) if isinstance(n, ast.If) and "log_stats" in ast.dump(n)
    ]
    assert ast.unparse(early) == "if not self.log_stats:\n    return None"
    made = step()
    outputs = {client: SimpleNamespace(scheduler_stats=None) for client in clients}
    arguments = ("spec_decoding_stats", "kv_connector_stats", "cudagraph_stats", "perf_stats", "ec_connector_stats")
    run(
        [hand_out],
        **dict.fromkeys(arguments),
        self=SimpleNamespace(make_stats=lambda *_, **__: made if log_stats else None),
        model_runner_output=SimpleNamespace(specdecode=specdecode),
        engine_core_outputs=outputs,
        EngineCoreOutputs=lambda: SimpleNamespace(scheduler_stats=None),
    )
    return outputs


@pytest.mark.wheels
@pytest.mark.parametrize("clients", [[0], [0, 1, 2], [3], []])
def test_one_api_server_alone_is_handed_a_shipment(line: str, clients: list[int]) -> None:
    outputs = handed_out(line, True, b"shipped", clients)
    assert [o.scheduler_stats.specdecode for o in outputs.values() if o.scheduler_stats] == [b"shipped"]


@pytest.mark.wheels
@pytest.mark.parametrize("foreign", [b"of another version", {"spans": [1]}, 7])
def test_the_engine_core_hands_on_a_foreign_shipment_unread(line: str, foreign: object) -> None:
    outputs = handed_out(line, True, foreign, [0])
    assert outputs[0].scheduler_stats.specdecode is foreign


@pytest.mark.wheels
def test_without_log_stats_the_engine_core_keeps_nothing(line: str) -> None:
    assert handed_out(line, False, b"shipped", [0]) == {0: SimpleNamespace(scheduler_stats=None)}


@pytest.mark.wheels
@pytest.mark.parametrize("log_stats", [True, False])
def test_a_server_with_log_stats_off_exports_ours_all_the_same(line: str, log_stats: bool) -> None:
    (server,) = named(ast.parse(wheels.source(line, "vllm/v1/engine/async_llm.py")), "AsyncLLM")
    body = named(server, "__init__")[0].body  # type: ignore[attr-defined]
    written = [ast.unparse(statement) for statement in body]
    first, last = (
        next(at for at, text in enumerate(written) if text.startswith(f"{name} = "))
        for name in ("custom_stat_loggers", "self.log_stats")
    )
    me = SimpleNamespace()
    plugins = {"load_stat_logger_plugin_factories": lambda: [object]}
    run(body[first : last + 1], self=me, stat_loggers=None, log_stats=log_stats, **plugins)
    assert me.log_stats is True


@pytest.mark.wheels
def test_offline_the_release_loads_no_plugin_so_that_shipments_stay_unread(line: str) -> None:
    calls = "load_stat_logger_plugin_factories()"
    assert calls not in wheels.source(line, "vllm/v1/engine/llm_engine.py")
    assert calls in wheels.source(line, "vllm/v1/engine/async_llm.py")


@pytest.mark.wheels
@pytest.mark.parametrize("sizes", LAYOUTS)
def test_the_executor_reads_the_worker_that_reports(line: str, sizes: tuple[int, int, int]) -> None:
    (output_rank,) = named(ast.parse(wheels.source(line, "vllm/v1/executor/multiproc_executor.py")), "_get_output_rank")
    config = parallel(*sizes)
    executor = SimpleNamespace(world_size=config.world_size, parallel_config=config)
    assert run([output_rank])["_get_output_rank"](executor) == ranks.reporter(config)


# --- parallel ranks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", LAYOUTS)
def test_one_worker_of_an_engine_reports(sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    tensor, pipeline, context = sizes
    reporting = []
    for rank, (stage, part, shard) in enumerate(itertools.product(range(pipeline), range(context), range(tensor))):
        groups = ModuleType("vllm.distributed.parallel_state")
        for name, index, size in (("pp", stage, pipeline), ("pcp", part, context), ("tp", shard, tensor)):
            group = SimpleNamespace(is_first_rank=index == 0, is_last_rank=index == size - 1)
            setattr(groups, f"get_{name}_group", lambda group=group: group)
        distributed = ModuleType("vllm.distributed")
        distributed.parallel_state = groups  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
        monkeypatch.setitem(sys.modules, "vllm.distributed", distributed)
        if ranks.reports.__wrapped__():
            reporting.append(rank)
    assert reporting == [ranks.reporter(parallel(*sizes))]


# --- the plugin ----------------------------------------------------------------------------------------------------


def bases(release: str | None) -> dict[str, Any]:
    """vllm.v1.metrics.loggers, as far as the plugin meets it: the release's own classes, or a stand-in without one."""
    if release is None:
        return {"AggregateStatLoggerBase": object}
    names = ("StatLoggerBase", "AggregateStatLoggerBase", "PerEngineStatLoggerAdapter", "StatLoggerManager")
    found = named(ast.parse(wheels.source(release, LOGGERS)), *names)
    methods = ("__init__", "record", "log_engine_initialized")
    prometheus = type("PrometheusStatLogger", (), dict.fromkeys(methods, lambda *_, **__: None))
    known = {"ABC": ABC, "abstractmethod": abstractmethod, "logging": logging, "logger": logging.getLogger("release")}
    return run(found, **known, PrometheusStatLogger=prometheus)


class Plugin:
    """The plugin in a process of its own, as far as modules and the registry go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, release: str | None) -> None:
        self.registry = CollectorRegistry()
        self.loggers = ModuleType("vllm.v1.metrics.loggers")
        self.loggers.__dict__.update(bases(release))
        for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, self.loggers.__name__, self.loggers)
        monkeypatch.setattr("prometheus_client.REGISTRY", self.registry)
        monkeypatch.setattr(worker, "device_name", lambda: "cpu")
        attested = Attestation("0.33.0", "v0.33.0", "d" * 64, (), frozenset(), None, ())
        monkeypatch.setattr(attestation, "attest", lambda *_: attested)
        monkeypatch.setattr(start, "installed_root", Path)
        monkeypatch.setattr(manifests, "of_installed_release", lambda: None)
        monkeypatch.delitem(sys.modules, "specdecode_engine.telemetry.logger", raising=False)

    def load(self) -> Any:
        """The class that vLLM is given, from a module that is executed anew."""
        sys.modules.pop("specdecode_engine.telemetry.logger", None)
        return importlib.import_module("specdecode_engine.telemetry.logger").SpecdecodeStatLogger

    def value(self, name: str, engine: int = 0, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"model_name": "m", "engine": str(engine), **labels})


CONFIG = SimpleNamespace(
    speculative_config=SimpleNamespace(method="dspark"),
    model_config=SimpleNamespace(served_model_name="m"),
    parallel_config=parallel(2, 2, 1),
)


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    yield Plugin(monkeypatch, None)
    sys.modules.pop("specdecode_engine.telemetry.logger", None)


@pytest.fixture
def of_the_release(monkeypatch: pytest.MonkeyPatch, line: str) -> Iterator[Plugin]:
    yield Plugin(monkeypatch, line)
    sys.modules.pop("specdecode_engine.telemetry.logger", None)


def test_a_plugin_loaded_anew_goes_on_counting(plugin: Plugin) -> None:
    for loaded in (1, 2, 3):
        logger = plugin.load()(CONFIG, [0])
        logger.record(step(shipment(), drafts=4), SimpleNamespace(finished_requests=[None]))
        assert plugin.value("specdecode_drafts_total") == 4 * loaded
        assert plugin.value("specdecode_requests_finished_total") == loaded


def test_the_engine_says_which_worker_its_samples_are_of(plugin: Plugin) -> None:
    plugin.load()(CONFIG, [0])
    labels = {"vllm_version": "0.33.0", "series": "v0.33.0", "manifest_digest": "d" * 64, "method": "dspark"}
    assert plugin.value("specdecode_engine_info", **labels, device="cpu", sample_every="1", worker_rank="2") == 1


def test_a_foreign_shipment_is_counted_as_dropped_and_the_rest_of_its_step_counts(plugin: Plugin) -> None:
    logger = plugin.load()(CONFIG, [0])
    for foreign in (b"of another version", {"spans": [1]}, 7):
        logger.record(step(foreign, drafts=1), None)
    assert plugin.value("specdecode_samples_dropped_total", reason="foreign_layout") == 3
    assert plugin.value("specdecode_drafts_total") == 3


@pytest.mark.wheels
def test_the_releases_manager_keeps_data_parallel_engines_apart(of_the_release: Plugin) -> None:
    manager = of_the_release.loggers.StatLoggerManager(
        CONFIG, engine_idxs=[0, 1], custom_stat_loggers=[of_the_release.load()], enable_default_loggers=False
    )
    manager.log_engine_initialized()
    for engine, drafts in ((0, 3), (1, 5), (1, 5)):
        manager.record(step(shipment(), drafts), None, engine_idx=engine)
    assert [of_the_release.value("specdecode_drafts_total", engine) for engine in (0, 1)] == [3, 10]
    spans = [
        of_the_release.value("specdecode_propose_host_seconds_count", engine, step="decode", batch="1")
        for engine in (0, 1)
    ]
    assert spans == [1, 2]


@pytest.mark.wheels
def test_the_releases_manager_takes_the_plugin_for_one_logger_of_all_engines(of_the_release: Plugin) -> None:
    assert issubclass(of_the_release.load(), of_the_release.loggers.StatLoggerBase)
    assert issubclass(of_the_release.load(), of_the_release.loggers.AggregateStatLoggerBase)


# --- several API servers -------------------------------------------------------------------------------------------

API_SERVER = """
import sys
from types import SimpleNamespace
from prometheus_client import CollectorRegistry
from specdecode_engine.telemetry.exposition import ENGINE_LABELS, Exposition, Metrics
exposition = Exposition(Metrics.of(CollectorRegistry()), model_name="m", engine=0)
exposition.info(dict.fromkeys(ENGINE_LABELS, "x"), [("telemetry", "active", True)])
for shipped in sys.argv[1:]:
    exposition.add(bytes.fromhex(shipped))
    exposition.add_drafts(drafts=1, draft_tokens=2, accepted_at=[1, 0])
"""


def test_several_api_servers_add_up_to_one_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [[shipment(0.5)], [shipment(0.25), shipment(0.25, samples=3)], []]
    for share in shares:
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", API_SERVER, *(shipped.hex() for shipped in share)]
        subprocess.run(command, env=environment, check=True)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(tmp_path))  # type: ignore[no-untyped-call]
    samples = {
        (s.name, s.labels.get("le", ""), s.labels.get("step", "decode"), s.labels.get("batch", "1")): s.value
        for family in registry.collect()
        for s in family.samples
        if "batch" not in s.labels or (s.labels["step"], s.labels["batch"]) == ("decode", "1")
    }

    def value(name: str, le: str = "") -> float:
        return samples[name, le, "decode", "1"]

    assert value("specdecode_propose_host_seconds_count") == 5
    assert value("specdecode_propose_host_seconds_sum") == pytest.approx(1.5)
    assert value("specdecode_drafts_total") == 3
    assert value("specdecode_acceptance_length_count") == 3
    assert value("specdecode_engine_info") == 1
    assert value("specdecode_start_time_seconds") > 0
