"""Whole runs of simulated pods, from the registered plan to the record, as an operator would have kept them.

The pods are the decision benchmark's (`bench.worlds`): what they measure is drawn, and what is true of them is known.
As a program it writes the run of docs/report.md and its page into a folder.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from bench.worlds import GPU, World, plan_for, simulate

from specdecode_operator.build import runplan, runrecord
from specdecode_operator.build.owner import Owner
from specdecode_operator.gates.look import Looked, look
from specdecode_operator.gates.plan import Plan, canonical_json, step_errors
from specdecode_operator.gates.power import Run, power
from specdecode_operator.gates.run import RunPlan, RunStep, digest_of, text_of
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.told import LENGTHS
from specdecode_operator.plan.canary import record as records
from specdecode_operator.plan.canary.record import Ended, Record, StepRecord, Verdict
from specdecode_operator.report.case import case_of
from specdecode_operator.report.page import page

DRAFTER, PROBE = "specdecode_drafter_gpu_seconds", "specdecode_probe_device_seconds"
PROPOSE, FORWARD = "specdecode_propose_gpu_seconds", "specdecode_target_forward_gpu_seconds"
ACCEPTED = (0.78, 0.61, 0.46)
"""Share of drafts whose token at each position is accepted."""

STEPS, REQUESTS = 2000, 12
"""Of a pod in a window."""
REQUEST_SPREAD = 0.2
"""Standard deviation of one request's ln acceptance length."""

REGISTERED = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
OWNER = Owner(name="chat", namespace="simulated", uid="00000000-0000-0000-0000-000000000000")
NOTE = "Simulated: no pod of this run ever ran. It shows what a report looks like, and nothing about any engine."

ROUGH = GPU.but("rough", drift=0.02, bursts=1 / 4, slow=0.05, missing=0.004, buckets=(0.4, 0.6))
"""Fleet drift, bursts of other load on single trays, slow trays, lost scrapes, two batch buckets."""


@dataclass(frozen=True)
class Simulation:
    """One run. Effects are natural logarithms, candidate against stable."""

    effect: float = 0.0
    """On the drafter's span."""
    length_effect: float = 0.0
    run: str = "20260302a1"
    stable: str = "5f0c9d21ab"
    candidate: str = "b81e6a7c04"
    tray: str = "tray"
    world: World = ROUGH
    slots: tuple[tuple[int, int], ...] = ((1, 20), (4, 80))
    """Of the candidate in each step, and the step's windows."""
    pods: int = 16
    seconds: float = 30.0
    margin: float = 0.02
    seed: int = 1

    def config_maps(self) -> list[dict[str, Any]]:
        """The run's two ConfigMaps."""
        plan = self.plan()
        record, files, packed = self._run(plan)
        files = {runrecord.FILE: records.text_of(record), **files}
        return [
            runplan.build(OWNER, self.run, text_of(plan)),
            runrecord.build(OWNER, self.run, files, packed),
        ]

    def plan(self) -> RunPlan:
        """The registered plan."""
        steps = tuple(self._registered(place) for place in range(len(self.slots)))
        return RunPlan(
            id=self.run,
            registered=REGISTERED.timestamp(),
            asked="sha256:" + "0" * 64,
            settle_windows=20,
            power=0.95,
            trays=tuple(tray.node for tray in reversed(steps[-1].plan.trays)),
            detectable=_detectable(steps[-1].plan),
            steps=steps,
        )

    def _registered(self, place: int) -> RunStep:
        slots, windows = self.slots[place]
        last = place == len(self.slots) - 1
        role = "decide" if last else "guard"
        bare = plan_for(self.world, self.pods - slots, slots, self.margin, windows)
        data = json.loads(canonical_json(bare))
        drafter = data["gates"][0]
        drafter |= {"name": "drafter", "span": {**drafter["span"], "metric": DRAFTER}}
        drafter["control"]["span"] |= {"metric": PROBE, "minCount": 3}
        noise = {"between": 1e-5, "longRun": REQUEST_SPREAD**2 / REQUESTS, "starts": 40, "windowSd": 0.07}
        acceptance = {
            "name": "acceptance", "measure": "acceptance", "span": {"metric": LENGTHS, "step": ""},
            "kind": "equivalent", "margin": 0.05, "worse": "lower", "noise": noise,
        }  # fmt: skip
        made = data | {
            "name": f"{OWNER.namespace}/{OWNER.name}", "run": self.run, "role": role,
            "stable": {"revision": self.stable, "pods": self.pods - slots, "image": _image("1")},
            "candidate": {"revision": self.candidate, "pods": slots, "image": _image("2")},
            "trays": self._trays(bare, place),
            "windows": {"start": 0, "seconds": self.seconds, "planned": windows},
            "errors": step_errors(0.01, 0.01, role=role, guards=len(self.slots) - 1).model_dump(by_alias=True),  # type: ignore[arg-type]
            "gates": [drafter, acceptance],
        }  # fmt: skip
        return RunStep(slots=slots, plan=Plan.model_validate(made), min_windows=20, on_inconclusive="Hold")

    def _trays(self, bare: Plan, place: int) -> list[dict[str, Any]]:
        trays = self._traces(bare, place).trays
        return [
            {"node": self._node(pod), "baseline": {"drafter": {
                "mean": float(trays.mean[0, pod]), "controlMean": float(trays.control_mean[0, pod]),
                "controlMedian": float(trays.control_median[0, pod]), "controlMad": float(trays.control_mad[0, pod]),
            }, "acceptance": {}}}
            for pod in range(self.pods)
        ]  # fmt: skip

    def _node(self, pod: int) -> str:
        return f"{self.tray}-{pod + 1:02d}"

    def _traces(self, plan: Plan, place: int) -> Any:
        return simulate(self.world, plan, 1, np.random.default_rng((self.seed, place)))

    def _run(self, plan: RunPlan) -> tuple[Record, dict[str, str], dict[str, bytes]]:
        files: dict[str, str] = {}
        packed: dict[str, bytes] = {}
        found: list[StepRecord] = []
        began = REGISTERED.timestamp()
        looked: Looked | None = None
        for place, step in enumerate(plan.steps):
            swapping = 240.0 * (step.slots - (plan.steps[place - 1].slots if place else 0))
            start = began + swapping + plan.settle_windows * self.seconds
            here = step.starting(start)
            looked, through = self._looks(here, place)
            files[runrecord.plan_file(place)] = canonical_json(here)
            packed |= {runrecord.samples_file(place): looked.samples, runrecord.looks_file(place): looked.looks}
            said = looked.verdict
            verdict = Verdict(outcome=said.outcome.value, reason=said.reason.value, sentence=said.sentence,
                              decided_at=said.decided_at)  # fmt: skip
            cohort = tuple(_uid(pod) for pod in range(here.stable.pods))
            found.append(StepRecord(start=start, cohort=cohort, through=through, verdict=verdict))
            began = start + through * self.seconds + 40
            if said.outcome in ("Fail", "Invalid"):
                break
        assert looked is not None
        said = looked.verdict
        ended = Ended(outcome=said.outcome.value, reason=said.reason.value, message=said.sentence,
                      at=datetime.fromtimestamp(began, UTC))  # fmt: skip
        record = Record(
            id=self.run, stable=self.stable, candidate=self.candidate, plan=digest_of(text_of(plan)),
            registered=REGISTERED, since=datetime.fromtimestamp(found[-1].start, UTC), steps=tuple(found), ended=ended,
        )  # fmt: skip
        return record, files, packed

    def _looks(self, plan: Plan, place: int) -> tuple[Looked, int]:
        """One look after each window, until one decides."""
        samples = list(self.samples(plan, place))
        cohort = frozenset(_uid(pod) for pod in range(plan.stable.pods))
        looked: Looked | None = None
        for window in range(plan.windows.planned):
            start = plan.windows.start + window * self.seconds
            new = [each for each in samples if each.window_start == start]
            looked = look(
                plan, new, through=window + 1, cohort=cohort,
                samples=looked.samples if looked else b"", looks=looked.looks if looked else b"",
            )  # fmt: skip
            if looked.verdict.decided_at is not None or looked.verdict.outcome == "Invalid":
                break
        assert looked is not None
        return looked, window + 1

    def samples(self, plan: Plan, place: int) -> Iterator[Sample]:
        """What the pods of a step measure, in all windows of its plan."""
        traces = self._traces(plan, place)
        rng = np.random.default_rng((self.seed, place, 1))
        values = traces.with_effect(self.effect).values[0]
        control = traces.cells.control[0, ..., 0]
        strata = plan.gates[0].span.strata
        for pod in range(self.pods):
            candidate = pod >= plan.stable.pods
            for window in range(plan.windows.planned):
                noise = float(rng.normal(self.length_effect * candidate, REQUEST_SPREAD / math.sqrt(REQUESTS)))
                if not math.isfinite(control[pod, window]):
                    continue
                start = plan.windows.start + window * self.seconds
                common = {
                    "window_start": start, "window_end": start + self.seconds,
                    "revision": self.candidate if candidate else self.stable, "pod_uid": _uid(pod, candidate),
                    "node": self._node(pod), "start_time": plan.windows.start - 3000.0, "requests": float(REQUESTS),
                }  # fmt: skip
                for batch, (name, share) in enumerate(strata.items()):
                    steps, level = round(STEPS * share), math.exp(float(values[pod, window, batch]))
                    for metric, base in ((DRAFTER, 1.1e-3), (PROPOSE, 1.4e-3)):
                        yield _sample(common, metric, steps, steps * base * level, name, "decode")
                    forward = 9e-3 * math.exp(0.1 * batch + 0.02 * float(rng.normal()))
                    yield _sample(common, FORWARD, steps, steps * forward, name, "decode")
                yield _sample(common, PROBE, 6, 6 * 5e-4 * math.exp(float(control[pod, window])))
                yield _lengths(common, STEPS * REQUESTS, noise)


def _detectable(plan: Plan) -> dict[str, float]:
    return {
        gate.name: power(
            Run(
                noise=gate.noise,
                margin=gate.margin,
                stable=plan.stable.pods,
                candidate=plan.candidate.pods,
                windows=plan.windows.planned,
            )
        ).smallest_detectable
        for gate in plan.gates
    }


def _lengths(common: dict[str, Any], drafts: int, noise: float) -> Sample:
    """Acceptance lengths of drafts whose mean is off by `noise`, with their histogram."""
    accepted = [min(0.98, share * math.exp(1.45 * noise)) for share in ACCEPTED]
    at_least = [drafts, *(round(drafts * share) for share in accepted), 0]
    buckets = {f"{place}.0": float(drafts - at_least[min(place, len(at_least) - 1)]) for place in range(1, 10)}
    return _sample(common, LENGTHS, drafts, float(sum(at_least)), buckets={**buckets, "+Inf": float(drafts)})


def _sample(
    common: dict[str, Any],
    metric: str,
    count: int,
    total: float,
    batch: str = "",
    step: str = "",
    buckets: dict[str, float] | None = None,
) -> Sample:
    return Sample(**common, metric=metric, count=count, sum=total, batch=batch, step=step, buckets=buckets)


def _uid(pod: int, candidate: bool = False) -> str:
    return f"{0xC0 if candidate else 0x5A:08x}-0000-4000-8000-{pod:012x}"


def _image(digit: str) -> str:
    return f"registry.example.com/engine@sha256:{digit * 64}"


SHOWN = Simulation(seed=12)
"""The run of docs/report.md: no difference, and seed 12 since bursts of other load hit pods of both arms in it."""


def main(folder: Path) -> None:
    """Write the record as `kubectl get configmap -o yaml` prints it, and its page."""
    maps = SHOWN.config_maps()
    listed = {"apiVersion": "v1", "kind": "List", "items": maps}
    (folder / "run.yaml").write_text(yaml.safe_dump(listed, sort_keys=True, width=120))
    (folder / "report.html").write_text(page(case_of(maps), note=NOTE) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
