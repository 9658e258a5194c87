"""From what an object asks for and what its stable pods have shown: a registered run, or why there can be none.

Said before anything moves. A run that could decide nothing isn't begun: it would cost slots, and end undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from specdecode_operator.api import names
from specdecode_operator.gates.calibrate import (
    FEWEST_WINDOWS,
    Calibration,
    TooLittleHistory,
    calibrate,
    slots_by_median,
)
from specdecode_operator.gates.intake import take_in
from specdecode_operator.gates.judge import unfit_plan
from specdecode_operator.gates.plan import (
    MAX_WINDOWS,
    Arm,
    Baseline,
    Control,
    Fresh,
    Gate,
    Kind,
    Noise,
    Plan,
    Role,
    Span,
    Statistic,
    Traffic,
    Tray,
    Windows,
    step_errors,
)
from specdecode_operator.gates.power import Power, Run, power
from specdecode_operator.gates.rules import GATES_VERSION, REFERENCE_PODS
from specdecode_operator.gates.run import OnInconclusive, RunPlan, RunStep
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.verdict import Reason

HISTORY_WINDOWS: Final = FEWEST_WINDOWS + 10
"""Windows of the stable pods' history that are read: what a calibration needs, and a few that may be missing."""

SETTLE_WINDOWS: Final = 20
"""Windows between a step's slots serving and its first sample: caches fill, clocks settle."""

FIRST_LOOK: Final = 10
LEAST_SHARE: Final = 0.02
"""Batch buckets with a smaller share of the stable pods' steps are left out: they would rarely have enough of them."""

PROBES_A_WINDOW: Final = 3
"""Runs of the fixed probe that a cell of the control needs: it runs every few seconds, not at every step."""

PROBE_SECONDS: Final = 5.0
"""Between two runs of the probe, as the engine's telemetry has it."""

LEAST_CONTROLLED: Final = (PROBES_A_WINDOW + 1) * PROBE_SECONDS
"""Seconds of a window that surely holds enough of them: a run more than is needed, since they come a little late."""


@dataclass(frozen=True)
class Measured:
    """A metric that can be gated."""

    metric: str
    control: str = ""
    """The fixed probe on the same processor: no change of ours can touch it."""
    step: str = "decode"
    worse: Literal["higher", "lower"] = "higher"

    @property
    def acceptance(self) -> bool:
        """Whether it is a length, counted by requests, and not a time."""
        return not self.control


MEASURED: Final[Mapping[str, Measured]] = {
    "proposeHostTime": Measured("specdecode_propose_host_seconds", "specdecode_probe_host_seconds"),
    "drafterGpuSpan": Measured("specdecode_drafter_gpu_seconds", "specdecode_probe_device_seconds"),
    "acceptanceLength": Measured(names.METRIC_ACCEPTANCE, step="", worse="lower"),
}
"""By the name that an object gives it."""


TOUCHABLE: Final = (*(name for name in names.METRIC_SPANS if "_probe_" not in name), names.METRIC_ACCEPTANCE)
"""What another image, engine or switch can move: everything but the fixed probe, which alone is a control."""


@dataclass(frozen=True)
class AskedGate:
    """A gate as the object asks for it."""

    name: str
    metric: str
    statistic: Statistic
    kind: Kind
    margin: float


@dataclass(frozen=True)
class AskedStep:
    """A step as the object asks for it, with its slots counted out."""

    slots: int
    gates: tuple[str, ...]
    """Empty: all."""
    min_seconds: float
    max_seconds: float
    on_inconclusive: OnInconclusive


@dataclass(frozen=True)
class Asked:
    """All that a registration is made from, but for the history."""

    name: str
    """Namespace and name of the object."""
    run: str
    digest: str
    """Of what the object says; see RunPlan.asked."""
    stable: Arm
    """Its pods: all slots."""
    candidate: Arm
    gates: tuple[AskedGate, ...]
    steps: tuple[AskedStep, ...]
    window: float
    """Seconds."""
    alpha: float
    power: float
    fresh: bool = False
    """Whether a stable slot is restarted with each of the candidate's, and only those are compared."""
    surge: int = 0
    """The candidate's slots that cost stable none."""

    def left(self, slots: int) -> int:
        """Slots that stay stable beside so many of the candidate's."""
        return self.stable.pods - max(slots - self.surge, 0)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics that the run reads."""
        measured = [MEASURED[gate.metric] for gate in self.gates]
        return tuple(sorted({name for each in measured for name in (each.metric, each.control) if name}))

    @property
    def histograms(self) -> tuple[str, ...]:
        """Those of which each bucket is needed, not the mean alone."""
        return tuple(sorted({MEASURED[gate.metric].metric for gate in self.gates if gate.statistic != "mean"}))


class Unfit(Exception):
    """No run can be registered. `reason` as in verdicts; the text says what would make it possible."""

    def __init__(self, reason: Reason, words: str) -> None:
        super().__init__(reason, words)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[1])


def register(asked: Asked, history: Iterable[Sample], *, start: float, at: float) -> RunPlan:
    """Register a run.

    Args:
        asked: what the object asks for.
        history: samples of the stable pods, HISTORY_WINDOWS windows from `start` on.
        start: start of the history, in seconds since the epoch.
        at: now.

    Raises:
        Unfit: nothing may move for such a run.
    """
    samples = tuple(sample for sample in history if sample.revision == asked.stable.revision)
    nodes = sorted({sample.node for sample in samples})
    if not nodes:
        raise Unfit(Reason.NO_DATA, f"there are no samples of revision {asked.stable.revision} to calibrate on")
    spans = {gate.name: _gate(gate, samples) for gate in asked.gates}
    past = _history_plan(asked, tuple(spans.values()), nodes, start)
    intake = take_in(past, samples, through=HISTORY_WINDOWS)
    if intake.faults:
        raise Unfit(intake.faults[0].reason, f"the stable pods' history is unfit: {intake.faults[0].detail}")
    found: dict[str, Calibration] = {}
    for name, gate in spans.items():
        try:
            found[name] = calibrate(intake, gate)
        except TooLittleHistory as error:
            raise Unfit(Reason.UNDERPOWERED, f"gate {name} can't be calibrated: {error}") from None
    gates = {name: _calibrated(gate, found[name]) for name, gate in spans.items()}
    trays = _trays(found)
    steps = tuple(_step(asked, place, gates, trays, at) for place in range(len(asked.steps)))
    _refuse_unfit(steps)
    powers = {name: _power(asked, gate, steps[-1]) for name, gate in gates.items()}
    weak = [f"gate {name}: {each.sentence}" for name, each in powers.items() if not each.passes]
    if weak:
        raise Unfit(Reason.UNDERPOWERED, " ".join(weak))
    return RunPlan(
        id=asked.run,
        registered=at,
        asked=asked.digest,
        settle_windows=SETTLE_WINDOWS,
        power=asked.power,
        trays=_order(found),
        detectable={name: each.smallest_detectable for name, each in powers.items()},
        steps=steps,
    )


def few_slots(asked: Asked) -> str:
    """Why these slots can't be compared, whatever the history says; empty if they may be."""
    slots = max(step.slots for step in asked.steps)
    left = asked.left(slots)
    needed = max(REFERENCE_PODS, slots if asked.fresh else 0)
    if left >= needed:
        return ""
    why = "a pod can only be compared with others"
    if needed > REFERENCE_PODS:
        why = "with baseline fresh as many are restarted as the candidate has"
    surge = ""
    if asked.stable.pods >= needed:
        surge = f", or spec.rollout.surgeSlots to {slots + needed - asked.stable.pods} if there are GPUs for them"
    return (
        f"{asked.stable.pods} replicas with {slots} on the candidate leave {max(left, 0)} stable slots, and {why}: at "
        f"least {needed} are needed. Raise spec.replicas to {asked.stable.pods + needed - left} or more{surge}, or set "
        "spec.rollout.strategy to Replace, which proves nothing"
    )


def strata(samples: Iterable[Sample], metric: str, step: str) -> dict[str, float]:
    """Weight of each batch bucket: its share of the steps. Before the swap both arms have stable's shares, and
    s c / (s + c) is then the share itself."""
    steps: Counter[str] = Counter()
    for sample in samples:
        if (sample.metric, sample.step) == (metric, step) and not sample.flags:
            steps[sample.batch] += max(int(sample.count), 0)
    total = steps.total()
    kept = {batch: count for batch, count in sorted(steps.items()) if total and count >= LEAST_SHARE * total}
    return {batch: count / sum(kept.values()) for batch, count in kept.items()}


def _gate(asked: AskedGate, samples: Sequence[Sample]) -> Gate:
    """The gate before it is calibrated."""
    measured = MEASURED[asked.metric]
    quiet = Noise(between=0.0, long_run=0.0, starts=0, window_sd=0.0)
    weights = {"": 1.0} if measured.acceptance else strata(samples, measured.metric, measured.step)
    if not weights:
        raise Unfit(Reason.NO_DATA, f"gate {asked.name}: there are no samples of {measured.metric} to calibrate on")
    control = Span(metric=measured.control, step="", min_count=PROBES_A_WINDOW) if measured.control else None
    return Gate(
        name=asked.name,
        measure="acceptance" if measured.acceptance else "span",
        span=Span(metric=measured.metric, step=measured.step, statistic=asked.statistic, strata=weights),
        kind=asked.kind,
        margin=asked.margin,
        worse=measured.worse,
        control=Control(span=control) if control else None,
        noise=quiet,
    )


def _history_plan(asked: Asked, gates: tuple[Gate, ...], nodes: Sequence[str], start: float) -> Plan:
    """The history as a plan whose windows have passed."""
    return Plan(
        gates_version=GATES_VERSION,
        name=asked.name,
        run=asked.run,
        stable=asked.stable,
        candidate=asked.candidate,
        trays=tuple(Tray(node=node) for node in nodes),
        windows=Windows(start=start, seconds=asked.window, planned=HISTORY_WINDOWS, first_look=FIRST_LOOK),
        traffic=Traffic(min_requests=0),
        gates=gates,
    )


def _calibrated(gate: Gate, found: Calibration) -> Gate:
    control = gate.control.model_copy(update={"beta": found.beta}) if gate.control else None
    return gate.model_copy(update={"noise": found.noise, "control": control})


def _trays(found: Mapping[str, Calibration]) -> tuple[Tray, ...]:
    """All nodes that the stable pods were on, with the baseline of each gate."""
    nodes = sorted({node for each in found.values() for node in each.baselines})
    return tuple(Tray(node=node, baseline=_baselines(found, node)) for node in nodes)


def _baselines(found: Mapping[str, Calibration], node: str) -> dict[str, Baseline]:
    return {gate: each.baselines[node] for gate, each in found.items() if node in each.baselines}


def _order(found: Mapping[str, Calibration]) -> tuple[str, ...]:
    """Nodes by how near the first gate's median they are: nobody picks them after looking."""
    first = next(iter(found.values())).baselines
    return tuple(slots_by_median(first, len(first)))


def planned_windows(step: AskedStep, window: float, *, last: bool) -> int:
    """Windows that a step's plan has. An early step only guards, and ends when nothing spoke against it; an extension
    is part of the plan from the start."""
    wanted = int(step.max_seconds // window) if last else int(step.min_seconds // window)
    return max(FIRST_LOOK, wanted * (2 if last and step.on_inconclusive == "Extend" else 1))


def _step(asked: Asked, place: int, gates: Mapping[str, Gate], trays: tuple[Tray, ...], at: float) -> RunStep:
    step, last = asked.steps[place], place == len(asked.steps) - 1
    role: Role = "decide" if last else "guard"
    planned = planned_windows(step, asked.window, last=last)
    if planned > MAX_WINDOWS:
        words = f"step {place + 1} has {planned} windows, {MAX_WINDOWS} are allowed; raise spec.metrics.window"
        raise Unfit(Reason.UNDERPOWERED, words)
    plan = Plan(
        gates_version=GATES_VERSION,
        name=asked.name,
        run=asked.run,
        role=role,
        stable=asked.stable.model_copy(update={"pods": asked.left(step.slots)}),
        candidate=asked.candidate.model_copy(update={"pods": step.slots}),
        fresh=Fresh(since=at, pods=step.slots) if asked.fresh else None,
        trays=trays,
        unseen_trays=asked.surge > 0,
        windows=Windows(start=0.0, seconds=asked.window, planned=planned, first_look=FIRST_LOOK),
        errors=step_errors(asked.alpha, asked.alpha, role=role, guards=len(asked.steps) - 1),
        touched=TOUCHABLE,
        gates=tuple(gate for name, gate in gates.items() if not step.gates or name in step.gates),
    )
    return RunStep(
        slots=step.slots,
        plan=plan,
        min_windows=min(int(step.min_seconds // asked.window), planned),
        on_inconclusive=step.on_inconclusive,
    )


def _refuse_unfit(steps: Sequence[RunStep]) -> None:
    for place, step in enumerate(steps, start=1):
        for reason, words in unfit_plan(step.plan):
            raise Unfit(reason, f"step {place}: {words}")


def _power(asked: Asked, gate: Gate, last: RunStep) -> Power:
    plan = last.plan
    return power(
        Run(
            noise=gate.noise,
            margin=gate.margin,
            stable=plan.stable.pods,
            candidate=plan.candidate.pods,
            windows=plan.windows.planned,
            first_look=plan.windows.first_look,
            passing=plan.errors.passing,
            fresh=asked.fresh,
            missed=1 - asked.power,
            seconds=asked.window,
        )
    )
