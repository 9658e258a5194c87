"""What the object asks for, in the words of whoever registers it."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from typing import Final

from specdecode_operator.api.canary import seconds, share, slots_of
from specdecode_operator.api.types import Spec
from specdecode_operator.gates.plan import Arm
from specdecode_operator.gates.register import Asked, AskedGate, AskedStep, planned_windows
from specdecode_operator.gates.run import digest_of
from specdecode_operator.plan.canary.runs import Run
from specdecode_operator.plan.canary.scene import Scene

RUN_LENGTH: Final = 10


LATER: Final = ("baseline", "surge_slots")
"""Fields newer than the first runs. At their defaults they aren't pinned: an operator that knows them ends no run."""


def digest(spec: Spec) -> str:
    """Of all that a plan pins. Whether it is paused isn't among it, nor how many replicas there are."""
    rollout = spec.rollout
    unsaid = {name for name in LATER if getattr(rollout, name) == type(rollout).model_fields[name].default}
    pinned = {
        "gates": [gate.model_dump(mode="json") for gate in spec.gates],
        "rollout": rollout.model_dump(mode="json", exclude={"paused", *unsaid}),
        "metrics": spec.metrics.model_dump(mode="json"),
    }
    return digest_of(json.dumps(pinned, sort_keys=True))


def window_of(spec: Spec) -> float:
    """Seconds of a window: three scrapes, unless the object says otherwise."""
    window = spec.metrics.window
    return 3 * seconds(spec.metrics.scrape_interval) if window is None else seconds(window)


def planned_of(spec: Spec) -> list[int]:
    """Windows of each step's plan."""
    *early, last = _steps(spec)
    window = window_of(spec)
    return [*(planned_windows(step, window, last=False) for step in early), planned_windows(last, window, last=True)]


def asked(it: Scene, runs: tuple[Run, ...]) -> Asked:
    """What is to be registered."""
    spec = it.desired.spec
    return asked_of(
        spec,
        name=f"{it.desired.namespace}/{it.desired.name}",
        run=_run_id(it, runs, digest(spec)),
        stable=_arm(it, it.stable),
        candidate=_arm(it, it.wanted),
    )


def asked_of(spec: Spec, *, name: str, run: str, stable: Arm, candidate: Arm) -> Asked:
    """What a spec asks for of a run between these two."""
    return Asked(
        name=name,
        run=run,
        digest=digest(spec),
        stable=stable,
        candidate=candidate,
        gates=tuple(
            AskedGate(gate.name, gate.metric, gate.statistic, gate.kind, share(gate.margin)) for gate in spec.gates
        ),
        steps=_steps(spec),
        window=window_of(spec),
        alpha=share(spec.rollout.alpha),
        power=share(spec.rollout.power),
        fresh=spec.rollout.baseline == "fresh",
        surge=spec.rollout.surge_slots,
    )


def _run_id(it: Scene, runs: tuple[Run, ...], pinned: str) -> str:
    """Another after each run, and the same until one is registered."""
    newest = runs[-1].record.id if runs else ""
    text = "/".join((it.desired.uid, it.stable, it.wanted, pinned, newest))
    return hashlib.sha256(text.encode()).hexdigest()[:RUN_LENGTH]


def _arm(it: Scene, revision: str) -> Arm:
    each = next((frozen for known, frozen in it.frozen.items() if known == revision), None)
    expected = each.expected if each else None
    return Arm(
        revision=revision,
        pods=max(it.replicas, 1),
        manifest_digest=expected.manifest_digest if expected else None,
        image=each.image if each else None,
    )


def _steps(spec: Spec) -> tuple[AskedStep, ...]:
    """Steps with their slots counted out, none with fewer than the one before."""
    slots = accumulate((slots_of(step, spec.replicas) for step in spec.rollout.steps), max)
    return tuple(
        AskedStep(count, step.gates, seconds(step.min_duration), seconds(step.max_duration), step.on_inconclusive)
        for count, step in zip(slots, spec.rollout.steps, strict=True)
    )
