"""vLLM's stat-logger plugin: what reaches the frontend goes into the registry that its /metrics serves."""

from typing import Any

from prometheus_client import REGISTRY
from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from specdecode_engine import attestation, manifests, start
from specdecode_engine.telemetry import ranks, worker
from specdecode_engine.telemetry.exposition import Metrics
from specdecode_engine.telemetry.frontend import Frontend


class SpecdecodeStatLogger(AggregateStatLoggerBase):
    """Adds each engine's increments and drafts to its metrics; all children exist at 0 from the start."""

    def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        speculative = vllm_config.speculative_config
        self._frontend = Frontend(
            Metrics.of(REGISTRY),
            model_name=str(vllm_config.model_config.served_model_name),
            engines=engine_indexes,
            attested=attestation.attest(start.installed_root(), manifests.of_installed_release()),
            device=worker.device_name(),
            method=speculative.method if speculative is not None else "none",
            sample_every=worker.sample_every(),
            worker_rank=ranks.reporter(vllm_config.parallel_config),
        )

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """Count one step of engine `engine_idx`."""
        self._frontend.record(scheduler_stats, iteration_stats, engine_idx)

    def log_engine_initialized(self) -> None:
        """Nothing to say: the facts are in engine_info."""
