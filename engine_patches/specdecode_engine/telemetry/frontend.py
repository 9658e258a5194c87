"""What a frontend does with each step's stats: into its engines' metrics, all of whose series exist from the start.

vLLM's stat logger is one such frontend, images/engine-standin another.
"""

from collections.abc import Sequence
from typing import Any

from specdecode_engine.attestation import Attestation
from specdecode_engine.telemetry.exposition import Exposition, Metrics

FIELD = "specdecode"
"""Field of vLLM's ModelRunnerOutput and SchedulerStats: a worker's shipment on its way through the engine core, which
never looks into it, so that what is in it cannot end the engine."""


class Frontend:
    """The engines (data-parallel ranks) behind one frontend.

    Args:
        metrics: The collectors, one set a process.
        model_name: Label of every series.
        engines: Indexes of the engines.
        attested: The check of the files that run here.
        device: `cuda` or `cpu`.
        method: Of speculative decoding, or `none`.
        sample_every: Each how many steps one is sampled.
        worker_rank: Rank, within an engine, of the worker that takes the samples.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        model_name: str,
        engines: Sequence[int],
        attested: Attestation,
        device: str,
        method: str,
        sample_every: int,
        worker_rank: int,
    ) -> None:
        self._engines = {engine: Exposition(metrics, model_name=model_name, engine=engine) for engine in engines}
        facts = {
            "vllm_version": attested.release,
            "series": attested.series,
            "manifest_digest": attested.digest,
            "device": device,
            "method": method,
            "sample_every": str(sample_every),
            "worker_rank": str(worker_rank),
        }
        rows = [(row.name, attested.state_of(row), row.switchable) for row in attested.rows]
        for exposition in self._engines.values():
            exposition.info(facts, rows)

    def record(self, scheduler_stats: Any, iteration_stats: Any, engine: int) -> None:
        """Count one step: the worker's increments and the verified drafts of the scheduler's stats, and how many
        requests finished.  Either may be None.
        """
        exposition = self._engines[engine]
        if scheduler_stats is not None:
            exposition.add(getattr(scheduler_stats, FIELD, None))
            if (drafts := scheduler_stats.spec_decoding_stats) is not None:
                exposition.add_drafts(
                    drafts=drafts.num_drafts,
                    draft_tokens=drafts.num_draft_tokens,
                    accepted_at=drafts.num_accepted_tokens_per_pos,
                )
        if iteration_stats is not None:
            exposition.add_finished(len(iteration_stats.finished_requests))
