"""Ours of the engine's metrics and attestation, by the engine's own code.

The stand-in has no vLLM whose files could be checked: its tree is the one that the manifest of its line describes. And
it has no steps to time: it counts those of a recording of the real engine on a CPU, each in the cell of the batch that
the stand-in runs at that moment. Everything else (states, switches, expectations, buckets, shipments) is as there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry

from engine_standin.settings import Settings
from engine_standin.steps import Step
from specdecode_engine import attestation, manifests, start, tree
from specdecode_engine.attestation import Attestation
from specdecode_engine.telemetry.exposition import Metrics
from specdecode_engine.telemetry.frontend import Frontend
from specdecode_engine.telemetry.increments import Increments
from specdecode_engine.telemetry.playback import Playback

RECORDING = Path(__file__).with_name("steps.jsonl")
PROBE_EVERY = 5.0
"""Seconds between two runs of the probe, as in the engine."""


def attested(settings: Settings, environment: Mapping[str, str]) -> Attestation:
    """The check at start.  Raises Refused if such an engine would not start."""
    manifest = manifests.load(settings.release)
    found: dict[str, str | None] = dict(manifest.whole)
    if settings.edited_file:
        found[settings.edited_file] = tree.sha256(b"edited")
    result = attestation.conclude(manifest, found, environment)
    start.insist(result)
    return dataclasses.replace(result, digest=settings.attests or result.digest)


@dataclass
class Drafts:
    """What vLLM's scheduler says of a step's drafts."""

    num_drafts: int
    num_draft_tokens: int
    num_accepted_tokens_per_pos: list[int]


@dataclass
class SchedulerStats:
    """What vLLM's scheduler says of a step, as far as our frontend reads it."""

    specdecode: bytes | None
    spec_decoding_stats: Drafts | None


@dataclass
class IterationStats:
    """What vLLM's frontend says of the requests."""

    finished_requests: list[None]


@dataclass
class Observed:
    """The metrics of one stand-in, in the registry that its /metrics serves."""

    frontend: Frontend
    playback: Playback
    drafted: int
    enabled: bool
    """False once telemetry is switched off: then no span is counted; drafts and requests still are."""
    increments: Increments = field(default_factory=Increments)
    _owed: float = 0.0
    _probed: float = float("-inf")

    def step(self, step: Step, *, running: int, first: bool, now: float) -> None:
        """Count one request's step.  With n requests running, n of these are one step of the engine."""
        if self.enabled:
            self._count_spans(running, first, now)
        drafts = None
        if self.drafted:
            at = [int(position < step.accepted) for position in range(self.drafted)]
            drafts = Drafts(num_drafts=1, num_draft_tokens=step.drafted, num_accepted_tokens_per_pos=at)
        self.frontend.record(SchedulerStats(self.increments.drain(now), drafts), None, 0)

    def finished(self) -> None:
        """Count one finished request."""
        self.frontend.record(None, IterationStats([None]), 0)

    def _count_spans(self, running: int, first: bool, now: float) -> None:
        if now - self._probed >= PROBE_EVERY:
            self._probed = now
            self.playback.probe(self.increments)
        self._owed += 1 / max(running, 1)
        if first or self._owed >= 1 - 1e-9:
            self._owed = max(self._owed - 1, 0.0)
            self.playback.step(self.increments, running, mixed=first, drafting=self.drafted > 0)


def observed(
    registry: CollectorRegistry,
    settings: Settings,
    *,
    model_name: str,
    method: str,
    drafted: int,
    attested: Attestation,
) -> Observed:
    """The metrics, all series there at 0."""
    playback = Playback(RECORDING.read_text(), settings.factors)
    frontend = Frontend(
        Metrics(registry),
        model_name=model_name,
        engines=[0],
        attested=attested,
        device=playback.engine["device"],
        method=method,
        sample_every=playback.engine["sample_every"],
        worker_rank=0,
    )
    return Observed(frontend, playback, drafted, enabled="telemetry" not in attested.disabled)
