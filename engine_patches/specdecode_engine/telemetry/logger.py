"""vLLM's stat-logger plugin: what reaches the frontend goes into the registry that its /metrics serves."""

import functools
from typing import Any

from prometheus_client import REGISTRY
from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from specdecode_engine import attestation, manifests, start
from specdecode_engine.telemetry import carry, worker
from specdecode_engine.telemetry.exposition import Exposition, Metrics


@functools.cache
def _metrics() -> Metrics:
    """One set a process: an engine made anew in the same process goes on counting."""
    return Metrics(REGISTRY)


class SpecdecodeStatLogger(AggregateStatLoggerBase):
    """Adds each engine's increments and drafts to its metrics; all children exist at 0 from the start."""

    def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        model_name = str(vllm_config.model_config.served_model_name)
        self._engines = {
            engine: Exposition(_metrics(), model_name=model_name, engine=engine) for engine in engine_indexes
        }
        result = attestation.attest(start.installed_root(), manifests.of_installed_release())
        speculative = vllm_config.speculative_config
        facts = {
            "vllm_version": result.release,
            "series": result.series,
            "manifest_digest": result.digest,
            "device": worker.device_name(),
            "method": speculative.method if speculative is not None else "none",
            "device_sample_every": str(worker.device_sample_every()),
        }
        rows = [(row.name, result.state_of(row), row.switchable) for row in result.rows]
        for exposition in self._engines.values():
            exposition.info(facts, rows)

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """Count one step of engine `engine_idx`."""
        exposition = self._engines[engine_idx]
        if scheduler_stats is not None:
            exposition.add(getattr(scheduler_stats, carry.FIELD, None))
            if (drafts := scheduler_stats.spec_decoding_stats) is not None:
                exposition.add_drafts(
                    drafts=drafts.num_drafts,
                    draft_tokens=drafts.num_draft_tokens,
                    accepted_at=drafts.num_accepted_tokens_per_pos,
                )
        if iteration_stats is not None:
            exposition.add_finished(len(iteration_stats.finished_requests))

    def log_engine_initialized(self) -> None:
        """Nothing to say: the facts are in engine_info."""
