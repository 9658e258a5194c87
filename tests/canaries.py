"""A fleet whose canary is told what to see: samples and statistics stand outside, as they do for the planner."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from builders import OTHER_IMAGE, DeploymentBuilder, deployment
from fleet import Fleet

from specdecode_operator.api import names
from specdecode_operator.apply.canary import Canaries, Missing, Question
from specdecode_operator.apply.meters import Meters
from specdecode_operator.gates.plan import Arm, Control, Fresh, Gate, Noise, Plan, Span, Tray, Windows, step_errors
from specdecode_operator.gates.register import MEASURED, Asked, AskedGate, AskedStep, planned_windows
from specdecode_operator.gates.run import RunPlan, RunStep
from specdecode_operator.gates.samples import Sample
from specdecode_operator.plan.canary.facts import Answer, Evidence, Look, Looked, Refused, Register, Unavailable, Want
from specdecode_operator.plan.observe import Observed

STEPS = [
    {"slots": 1, "minDuration": "5m"},
    {"slots": 2, "minDuration": "5m", "maxDuration": "10m"},
]
GATES = [{"name": "drafter", "metric": "drafterGpuSpan", "margin": "2%"}]
NOISE = Noise(between=1e-6, long_run=1e-5, starts=8, window_sd=0.003)


def canary(replicas: int = 8, steps: list[dict[str, Any]] | None = None, **rollout: Any) -> DeploymentBuilder:
    """An object that has its revisions proven."""
    start = deployment().replicas(replicas).behind("edge").set("spec.gates", GATES)
    metrics = {"scrapeInterval": "10s", "window": "30s", "backend": "main"}
    return start.set("spec.metrics", metrics).set(
        "spec.rollout", {"strategy": "Canary", "steps": steps or STEPS, **rollout}
    )


def without_metrics(meters: Meters) -> Canaries:
    """Whoever finds out for canaries, with nobody to ask."""

    async def nobody(_: Question) -> tuple[Sample, ...]:
        raise Missing("BackendDown", "there is none")

    return Canaries(nobody, lambda _: None, meters)


def registering() -> Register:
    """What is to be registered for a fleet of sixteen, of which the candidate gets four."""
    asked = Asked(
        name="team/chat",
        run="0123456789",
        digest="sha256:" + "0" * 64,
        stable=Arm(revision="old", pods=16),
        candidate=Arm(revision="new", pods=1),
        gates=(AskedGate("drafter", "drafterGpuSpan", "mean", "nonInferior", 0.02),),
        steps=(AskedStep(4, (), 600.0, 2400.0, "Hold"),),
        window=30.0,
        alpha=0.01,
        power=0.95,
    )
    return Register(asked, 10.0, "main")


@dataclass
class CanaryFleet(Fleet):
    """With runs' ConfigMaps, nodes, and whoever answers what the planner wants to know."""

    sees: str = "Measuring"
    """What looks say: Measuring, or a verdict as outcome(reason)."""
    backend: str = "up"
    """up, NoData or BackendDown."""
    evidence: Evidence | None = None
    want: Want | None = None
    asked: list[str] = field(default_factory=list)
    """Ids of all that was wanted."""
    passed: set[str] = field(default_factory=set)
    """Runs of which a look has said Pass."""
    nodes: int = 64
    """Where pods can be; one that finds none waits for it."""

    def observed(self) -> Observed:
        seen = vars(super().observed())
        maps = tuple(item for (kind, _), item in sorted(self.children.items()) if kind == "ConfigMap")
        return Observed(**{**seen, "config_maps": maps, "evidence": self.evidence})

    def reconcile(self, *, writes: int | None = None) -> Any:
        made = super().reconcile(writes=writes)
        self.want = made.want
        if made.want is not None and made.want.id not in self.asked:
            self.asked.append(made.want.id)
        return made

    def kubelet(self) -> None:
        taken = {pod["spec"].get("nodeName") for pod in self.pods.values()}  # a pod that goes still has its node
        free = [node for node in (f"node-{place}" for place in range(self.nodes)) if node not in taken]
        for pod in self.pods.values():
            if "nodeName" not in pod["spec"] and free:
                pod["spec"]["nodeName"] = free.pop(0)
        super().kubelet()

    def can_start(self, pod: dict[str, Any]) -> bool:
        return "nodeName" in pod["spec"] and super().can_start(pod)

    def answer(self) -> None:
        """Find out what was wanted last."""
        if self.want is None:
            return
        if self.backend != "up":
            self.evidence = Evidence(self.want.id, Unavailable(self.backend, "nobody answers"))  # type: ignore[arg-type]
        else:
            self.evidence = Evidence(self.want.id, self._answer(self.want))

    def _answer(self, want: Want) -> Answer:
        if isinstance(want, Register):
            nodes = sorted(str(pod["spec"]["nodeName"]) for pod in self.pods.values() if "nodeName" in pod["spec"])
            return registered(want.asked, nodes) if nodes else Refused("NoData", "there are no samples")
        return self._look(want)

    def _look(self, want: Look) -> Looked:
        outcome, _, reason = self.sees.rstrip(")").partition("(")
        if outcome == "Measuring":
            outcome, reason = "Inconclusive", "Measuring"
            if want.through >= want.plan.windows.planned:
                reason = "Guarded" if want.plan.role == "guard" else "Undecided"
        decided = want.through if outcome in ("Pass", "Fail") else None
        self.passed |= {want.run} if outcome == "Pass" else set()
        seen = f"{want.run} {want.step} {want.through}".encode()
        return Looked(
            want.run, want.step, want.through, outcome, reason, f"{outcome}: said.", decided, want.samples + seen, seen
        )

    def turn(self, seconds: float = 20) -> None:
        """Everybody once, and whoever answers."""
        self.round()
        self.answer()
        self.reconcile()
        self.pass_time(seconds)

    def until(self, phase: str, step: str | None = None, turns: int = 400) -> None:
        """Turns until the run is in that phase."""
        stuck = 0
        for _ in range(turns):
            run = self.obj["status"].get("run") or {}
            if run.get("phase") == phase and step in (None, run.get("step")):
                return
            over = run.get("phase") in ("Ended", "Judging") and self.progressing[0] == "False"
            stuck = stuck + 1 if over else 0
            if stuck > 20:
                break
            self.turn()
        raise AssertionError(f"never {phase} {step}: {self.obj['status'].get('run')}, {self.progressing}")

    def rest(self, turns: int = 400, seconds: float = 20) -> None:
        """Turns until nothing has changed in four of them. A Pass that waits for its step's least time is as quiet."""
        quiet, before = 0, ""
        for _ in range(turns):
            self.turn(seconds)
            now = json.dumps([self.obj["status"], sorted(self.children.items())], sort_keys=True)
            quiet, before = (quiet + 1 if now == before else 0), now
            if quiet >= 4:
                return
        raise AssertionError(f"not at rest: {self.obj['status']}")

    def ask(self, verb: str, run: str | None = None, id: str = "1", **more: str) -> None:
        """Somebody's request."""
        current = run if run is not None else self.run["id"]
        text = json.dumps({"id": id, "verb": verb, "runID": current, "by": "alice", **more})
        self.obj["metadata"].setdefault("annotations", {})[names.ANNOTATION_REQUEST] = text

    # --- Looking ------------------------------------------------------------------------------------------------------

    @property
    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = self.obj["status"]["run"]
        return found

    @property
    def progressing(self) -> tuple[str, str]:
        said = self.condition("Progressing")
        return said["status"], said["reason"]

    @property
    def record(self) -> dict[str, Any]:
        """The current run as it is written down."""
        text = self.children[("ConfigMap", names.run_record("demo", self.run["id"]))]["data"]["run.json"]
        found: dict[str, Any] = json.loads(text)
        return found

    def slots(self, image: str = OTHER_IMAGE) -> int:
        """Slots of an image."""
        return sum(
            item["spec"]["replicas"]
            for item in self.workloads()
            if item["spec"]["template"]["spec"]["containers"][0]["image"] == image
        )

    def stable(self) -> str:
        found: str = self.obj["status"]["stable"]["revision"]
        return found


def serving(replicas: int = 8, **more: Any) -> CanaryFleet:
    """A fleet at rest, its first revision proven by having served."""
    fleet = CanaryFleet.of(canary(replicas, **more))
    assert isinstance(fleet, CanaryFleet)
    fleet.settle()
    return fleet


def changed(replicas: int = 8, **more: Any) -> CanaryFleet:
    """The same, just asked for another image."""
    fleet = serving(replicas, **more)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    return fleet


def registered(asked: Asked, nodes: list[str]) -> RunPlan:
    """A run as it would be registered, of a known noise."""
    gates = tuple(
        Gate(
            name=each.name,
            span=Span(metric=MEASURED[each.metric].metric, strata={"4": 1.0}),
            margin=each.margin,
            control=Control(span=Span(metric=MEASURED[each.metric].control, step="", min_count=3)),
            noise=NOISE,
        )
        for each in asked.gates
    )
    steps = []
    for place, step in enumerate(asked.steps):
        last = place == len(asked.steps) - 1
        role = "decide" if last else "guard"
        plan = Plan(
            gates_version=1,
            name=asked.name,
            run=asked.run,
            role=role,  # type: ignore[arg-type]
            stable=asked.stable.model_copy(update={"pods": asked.left(step.slots)}),
            candidate=asked.candidate.model_copy(update={"pods": step.slots}),
            trays=tuple(Tray(node=node) for node in nodes),
            unseen_trays=asked.surge > 0,
            windows=Windows(start=0, seconds=asked.window, planned=planned_windows(step, asked.window, last=last)),
            fresh=Fresh(since=0, pods=step.slots) if asked.fresh else None,
            errors=step_errors(asked.alpha, asked.alpha, role=role, guards=len(asked.steps) - 1),  # type: ignore[arg-type]
            gates=gates,
        )
        least = int(step.min_seconds // asked.window)
        steps.append(RunStep(slots=step.slots, plan=plan, min_windows=least, on_inconclusive=step.on_inconclusive))
    return RunPlan(
        id=asked.run,
        registered=0,
        asked=asked.digest,
        settle_windows=4,
        power=0.95,
        trays=tuple(reversed(nodes)),
        detectable={gate.name: 0.01 for gate in gates},
        steps=tuple(steps),
    )
