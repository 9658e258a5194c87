"""`kubectl-specdecode plan`: the plan that a canary was registered with, or would be, and what it can find."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.build import runplan
from specdecode_operator.cli import backend, beforehand, exits, kubectl, manifests
from specdecode_operator.gates.register import Unfit
from specdecode_operator.gates.run import RunPlan, RunStep, digest_of, text_of
from specdecode_operator.gates.verdict import Outcome

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

_HELP: Final = """\
With a history (--samples, --backend-url or --config) nothing needs to be registered, and with -f not even the object
has to exist: the plan is made as the operator would make it now. A new object has no history of its own: give that of
one like it, by --history-of or in a file. A plan that could decide nothing says what would do.

  kubectl-specdecode samples --name chat -n team --backend-url URL --from T --to T --window 30s > history.jsonl
  kubectl-specdecode plan -f chat.yaml --samples history.jsonl

Exit codes: 0 there is a plan, 30 nothing would move, 64 the object or the history can't be read, 70 internal error.
"""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser(
        "plan",
        help="show the plan that a canary has, or would have",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kubectl.add_flags(parser, name_needed=False)
    parser.add_argument("--filename", "-f", metavar="FILE", help="the object, YAML or JSON; - reads standard input")
    parser.add_argument("--samples", metavar="FILE", help="the history, JSON lines as samples prints them")
    backend.add_flags(parser, required=False)
    parser.add_argument("--history-of", metavar="NAME", help="another object of the namespace, whose history is taken")
    parser.add_argument("--revision", help="whose history counts; default: the stable one, or the only one")
    parser.add_argument("-o", "--output", choices=("json", "text"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if not (arguments.name or arguments.filename):
        raise InvalidObject([FieldError("NAME", "none", "an object's name, or -f FILE", "give one")])
    if not _has_history(arguments):
        text = _registered(arguments)
        print(text if arguments.output == "json" else shown(RunPlan.model_validate_json(text)))
        return 0
    try:
        plan = beforehand.plan_of(_object(arguments), arguments)
    except Unfit as unfit:
        print(f"Nothing would move ({unfit.reason}): {unfit}")
        return exits.OF_OUTCOME[Outcome.INVALID]
    print(text_of(plan) if arguments.output == "json" else shown(plan))
    return 0


def _has_history(arguments: argparse.Namespace) -> bool:
    given = any((arguments.samples, arguments.backend_url, arguments.config))
    if arguments.filename and not given:
        raise InvalidObject(
            [FieldError("-f", "no history", "--samples, --backend-url or --config beside it", "give one of them")]
        )
    return given


def _object(arguments: argparse.Namespace) -> dict[str, Any]:
    """From the file if there is one; of several in it, the one that is named."""
    if not arguments.filename:
        return kubectl.the_object(arguments)
    there = manifests.read(arguments.filename, names.KIND)
    metadata = [each.get("metadata") or {} for each in there]
    known = [
        each
        for each, its in zip(there, metadata, strict=True)
        if isinstance(its, dict) and arguments.name in (None, its.get("name"))
    ]
    if len(known) != 1:
        wanted = arguments.name or f"one {names.KIND}"
        raise InvalidObject([FieldError("-f", f"{len(known)} that fit", wanted, "name one that the file has")])
    return known[0]


def _registered(arguments: argparse.Namespace) -> str:
    """The plan's text, as it was registered."""
    status = (kubectl.the_object(arguments).get("status") or {}).get("run") or {}
    if not status.get("plan"):
        why = status.get("message") or "no canary is under way"
        action = "look again later, or give a history to see what would be registered (--help)"
        raise InvalidObject([FieldError("status.run.plan", f"none: {why}", "a registered plan", action)])
    text = runplan.text_of(json.loads(kubectl.call(arguments, "get", "configmap", status["plan"], "-o", "json")))
    if digest_of(text) != status.get("planDigest"):
        raise InvalidObject(
            [FieldError("status.run.planDigest", digest_of(text), str(status.get("planDigest")), "abort the run")]
        )
    return text


def shown(plan: RunPlan) -> str:
    """The plan for people."""
    return "\n".join(_lines(plan))


def _lines(plan: RunPlan) -> Iterator[str]:
    if plan.id == beforehand.RUN:
        yield f"Not registered; so it would be now, against revision {plan.stable}."
    else:
        yield f"Run {plan.id}: revision {plan.candidate} against {plan.stable}."
    yield from (_step(place, step) for place, step in enumerate(plan.steps, start=1))
    settling = plan.settle_windows * plan.steps[0].plan.windows.seconds / 60
    yield f"  before each step: {settling:g} minutes from when its slots serve"
    for gate in plan.steps[-1].plan.gates:
        found = 100 * plan.detectable.get(gate.name, float("nan"))
        yield (f"  {gate.name}: {gate.kind}, margin {100 * gate.margin:g}%, smallest effect it can find {found:.2f}%")


def _step(place: int, step: RunStep) -> str:
    windows, stable = step.plan.windows, step.plan.stable.pods
    minutes = windows.planned * windows.seconds / 60
    against = f"{step.plan.compared} restarted of {stable}" if step.plan.fresh else f"{stable}"
    return (
        f"  step {place} ({step.plan.role}): {step.slots} slots against {against}, "
        f"{windows.planned} windows of {windows.seconds:g} s = {minutes:g} minutes at most; then {step.on_inconclusive}"
    )
