"""Increments on their way through the scheduler: from a worker's output to the step's stats."""

from typing import Any

from specdecode_engine.telemetry import increments

FIELD = "specdecode"
"""Attribute of ModelRunnerOutput, of the scheduler between two of its calls, and field of SchedulerStats."""


def take(scheduler: Any, model_runner_output: Any) -> None:
    """Keep what an output brought until `give`.  Several outputs may come before one `give`.

    Without stats nobody would ever take it away: then nothing is kept.
    """
    if scheduler.log_stats:
        brought = getattr(model_runner_output, FIELD, None)
        setattr(scheduler, FIELD, increments.merge(getattr(scheduler, FIELD, None), brought))


def give(scheduler: Any) -> bytes | None:
    """What was kept since the last `give`."""
    kept: bytes | None = getattr(scheduler, FIELD, None)
    setattr(scheduler, FIELD, None)
    return kept
