"""Runs to judge: a plan, and samples of pods whose true difference is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import replace as _replace
from typing import Any

from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Verdict

START, SECONDS = 1_000_000.0, 30.0
SPAN, PROBE, LENGTH = (
    "specdecode_drafter_gpu_seconds",
    "specdecode_probe_device_seconds",
    "specdecode_acceptance_length",
)
NOISE = {"between": 1e-5, "longRun": 1e-4, "starts": 40, "windowSd": 0.01}
STRATA = {"4": 0.5, "8": 0.5}


def span_gate(**changes: Any) -> dict[str, Any]:
    """A gate on the drafter's device span, with the probe as its control."""
    return {
        "name": "drafter",
        "span": {"metric": SPAN, "strata": STRATA},
        "margin": 0.02,
        "control": {"span": {"metric": PROBE, "step": "", "minCount": 5}},
        "noise": NOISE,
    } | changes


def length_gate(**changes: Any) -> dict[str, Any]:
    """A gate on the acceptance length."""
    return {
        "name": "acceptance",
        "measure": "acceptance",
        "span": {"metric": LENGTH, "step": ""},
        "kind": "equivalent",
        "margin": 0.05,
        "worse": "lower",
        "noise": NOISE,
    } | changes


def plan_data(
    stable: int = 12, candidate: int = 4, gates: Iterable[dict[str, Any]] = (), **changes: Any
) -> dict[str, Any]:
    """A plan as JSON would hold it."""
    gates = list(gates) or [span_gate()]
    baseline = {gate["name"]: {} for gate in gates}
    trays = [("stable", f"s{place}") for place in range(stable)] + [("candidate", f"c{p}") for p in range(candidate)]
    return {
        "gatesVersion": 1,
        "name": "team/chat",
        "run": "run-1",
        "stable": {"revision": "old", "pods": stable, "manifestDigest": "sha256:old"},
        "candidate": {"revision": "new", "pods": candidate, "manifestDigest": "sha256:new"},
        "trays": [{"node": f"node-{name}", "arm": arm, "baseline": baseline} for arm, name in trays],
        "windows": {"start": START, "seconds": SECONDS, "planned": 40},
        "gates": gates,
    } | changes


def make_plan(stable: int = 12, candidate: int = 4, gates: Iterable[dict[str, Any]] = (), **changes: Any) -> Plan:
    return Plan.model_validate(plan_data(stable, candidate, gates, **changes))


@dataclass(frozen=True)
class World:
    """What is true of the pods. Effects are natural logarithms, candidate against stable."""

    effect: float = 0.0
    length_effect: float = 0.0
    control_effect: float = 0.0
    pod_sd: float = 0.001
    window_sd: float = 0.003
    steps: int = 400
    requests: float = 20.0
    length: float = 3.0
    seed: int = 1

    def but(self, **changes: Any) -> World:
        return _replace(self, **changes)

    def samples(self, plan: Plan, windows: int | None = None) -> list[Sample]:
        """Samples of all the plan's pods."""
        rng = random.Random(self.seed)
        found: list[Sample] = []
        arms = [(plan.stable, place, "s", 0) for place in range(plan.stable.pods)]
        arms += [(plan.candidate, place, "c", 1) for place in range(plan.candidate.pods)]
        for arm, place, letter, new in arms:
            offset, length_offset = rng.gauss(0, self.pod_sd), rng.gauss(0, self.pod_sd)
            for window in range(windows or plan.windows.planned):
                start = START + SECONDS * window
                common: dict[str, Any] = {
                    "window_start": start,
                    "window_end": start + SECONDS,
                    "revision": arm.revision,
                    "pod_uid": f"uid-{letter}{place}",
                    "node": f"node-{letter}{place}",
                    "start_time": START - 1000,
                    "requests": self.requests,
                    "manifest_digest": arm.manifest_digest,
                }
                drift = 0.1 * ((window * 7919) % 13) / 13
                for batch, base in (("4", 1e-3), ("8", 2e-3)):
                    y = drift + offset + rng.gauss(0, self.window_sd) + new * self.effect
                    found.append(row(common, SPAN, self.steps, base * 2.718281828459045**y, batch, "decode"))
                control = drift + rng.gauss(0, self.window_sd) + new * self.control_effect
                found.append(row(common, PROBE, 10, 5e-4 * 2.718281828459045**control))
                y = length_offset + rng.gauss(0, self.window_sd) + new * self.length_effect
                found.append(row(common, LENGTH, self.steps * 12, self.length * 2.718281828459045**y))
        return found

    def verdict(self, plan: Plan, change: Callable[[Sample], Iterable[Sample]] | None = None, **more: Any) -> Verdict:
        """The verdict on this world's samples, each put through `change`."""
        samples = self.samples(plan)
        if change is not None:
            samples = [new for sample in samples for new in change(sample)]
        return judge(plan, samples, **more)


def row(common: dict[str, Any], metric: str, count: int, mean: float, batch: str = "", step: str = "") -> Sample:
    """One sample with a mean."""
    return Sample(**common, metric=metric, count=count, sum=count * mean, batch=batch, step=step)


def window_of(sample: Sample) -> int:
    return round((sample.window_start - START) / SECONDS)


def is_candidate(sample: Sample) -> bool:
    return sample.revision == "new"


def altered(sample: Sample, **changes: Any) -> Sample:
    """The sample with other fields, unchecked as data from elsewhere is."""
    return sample.model_copy(update=changes)
