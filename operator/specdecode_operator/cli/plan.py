"""`kubectl-specdecode plan`: the plan that an object's canary was registered with, and what it can find."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.build import runplan
from specdecode_operator.cli import kubectl
from specdecode_operator.gates.run import RunPlan, RunStep, digest_of

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser("plan", help="show the plan that a canary was registered with")
    kubectl.add_flags(parser)
    parser.add_argument("-o", "--output", choices=("json", "text"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    status = (kubectl.the_object(arguments).get("status") or {}).get("run") or {}
    if not status.get("plan"):
        why = status.get("message") or "no canary is under way"
        raise InvalidObject([FieldError("status.run.plan", f"none: {why}", "a registered plan", "look again later")])
    text = runplan.text_of(json.loads(kubectl.call(arguments, "get", "configmap", status["plan"], "-o", "json")))
    if digest_of(text) != status.get("planDigest"):
        raise InvalidObject(
            [FieldError("status.run.planDigest", digest_of(text), str(status.get("planDigest")), "abort the run")]
        )
    print(text if arguments.output == "json" else shown(RunPlan.model_validate_json(text)))
    return 0


def shown(plan: RunPlan) -> str:
    """The plan for people."""
    head = f"Run {plan.id}: revision {plan.candidate} against {plan.stable}."
    finds = [
        f"  {gate.name}: {gate.kind}, margin {100 * gate.margin:g}%, smallest effect it can find "
        f"{100 * plan.detectable.get(gate.name, float('nan')):.2f}%"
        for gate in plan.steps[-1].plan.gates
    ]
    steps = [_step(place, step) for place, step in enumerate(plan.steps, start=1)]
    return "\n".join((head, *steps, *finds))


def _step(place: int, step: RunStep) -> str:
    windows, stable = step.plan.windows, step.plan.stable.pods
    minutes = windows.planned * windows.seconds / 60
    against = f"{step.plan.compared} restarted of {stable}" if step.plan.fresh else f"{stable}"
    return (
        f"  step {place} ({step.plan.role}): {step.slots} slots against {against}, "
        f"{windows.planned} windows of {windows.seconds:g} s = {minutes:g} minutes at most; then {step.on_inconclusive}"
    )
