"""`kubectl-specdecode attribute`: what each optimization brings, by one canary each, of its switch alone."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.api.types import SpecDecodeDeployment
from specdecode_operator.cli import exits, kubectl, request, walk
from specdecode_operator.cli.status import record_of
from specdecode_operator.cli.walk import Move, Walk
from specdecode_operator.gates.verdict import Outcome, percent
from specdecode_operator.plan.canary.rules import validate_rollout

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

EVERY: Final = 5.0
"""Seconds between two looks at the object; a run's first look is ten windows after its slots serve."""

_HELP: Final = """\
Each optimization that is on, can be switched off and touches what a gate reads is switched off in turn
(spec.engine.optimizations.disable), proven as any revision is, and switched on again. Estimates are without it minus
with it: a time that grows is what the optimization saves. The runs are paused in their last step, so that none of them
takes over, whatever its gates say.

Without --yes nothing is begun: it prints what would be walked, and how long that takes at most. Interrupted (^C), it
puts the switch back; its slots go back, and the same command goes on with what is left, from any machine. Killed, or
cut off from the cluster, it can't: then a run that passes takes over, unless it had been paused already. Not for an
object whose spec a GitOps tool keeps as it is.

Exit codes: 0 all were walked, 20 interrupted or too slow, 30 something else than a run is in the way, 64 there is
nothing to walk, 70 internal error.
"""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser(
        "attribute",
        help="find what each optimization brings, one canary each",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kubectl.add_flags(parser)
    parser.add_argument("--optimization", action="append", default=[], metavar="NAME", help="only this one; may be "
                        "repeated")  # fmt: skip
    parser.add_argument("--anew", action="store_true", help="forget how far an earlier walk came")
    parser.add_argument("--yes", action="store_true", help="begin, or go on")
    parser.add_argument("-o", "--output", choices=("json", "text"), default="text", help="of the results (text)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Say how long it will take; walk; print what was found."""
    found = kubectl.the_object(arguments)
    desired = SpecDecodeDeployment.parse(found)
    _refuse_without_canary(desired)
    begun = None if arguments.anew else walk.read(found)
    here = begun or _begin(found, desired, arguments.optimization)
    limit = walk.measuring_seconds(desired.spec) + walk.starting_seconds(desired.spec)
    if not arguments.yes:
        print("\n".join((*_announced(here, desired, limit), "Nothing was begun: add --yes.")))
        return 0
    _say("\n".join(_announced(here, desired, limit)))
    return _walk(arguments, here, limit)


def _say(text: str) -> None:
    """What goes on, beside the results."""
    print(text, file=sys.stderr, flush=True)


def _refuse_without_canary(desired: SpecDecodeDeployment) -> None:
    if errors := tuple(validate_rollout(desired.spec)):
        raise InvalidObject(errors)
    if not desired.spec.rollout.canary:
        raise InvalidObject([_fault("spec.rollout.strategy", desired.spec.rollout.strategy, "Canary")])


def _begin(found: dict[str, Any], desired: SpecDecodeDeployment, wanted: list[str]) -> Walk:
    """What to walk, from an object at rest.

    Raises:
        InvalidObject: it is not at rest, or nothing can be walked.
    """
    if not walk.at_rest(found):
        raise InvalidObject([_fault("status", "a revision under way", "one revision that holds all slots")])
    known = walk.visible(desired.spec)
    there = [name for name, seen in known.items() if seen]
    unknown = sorted(set(wanted) - set(there))
    if unknown or not there:
        what = ", ".join(unknown) or "none whose effect a gate reads"
        raise InvalidObject([_fault("--optimization", what, ", ".join(there) or "one that is on, and a gate on it")])
    return Walk(
        stable=found["status"]["stable"]["revision"],
        spec=walk.pinned(found),
        base=walk.switched_off(found),
        todo=tuple(name for name in there if not wanted or name in wanted),
    )


def _fault(path: str, found: str, allowed: str) -> FieldError:
    return FieldError(path, found, allowed, "look at `kubectl-specdecode explain`, or change the spec")


def _announced(here: Walk, desired: SpecDecodeDeployment, limit: float) -> Iterator[str]:
    if here.done:
        yield f"Goes on: {', '.join(each.optimization for each in here.done)} done."
    unseen = sorted(name for name, seen in walk.visible(desired.spec).items() if not seen)
    if unseen and not here.done:
        yield f"Left out, since no gate reads what they touch: {', '.join(unseen)}."
    measuring = walk.measuring_seconds(desired.spec)
    if not here.todo:
        return
    yield (
        f"To walk, against revision {here.stable}: {', '.join(here.todo)}. Each is settled and measured for at most "
        f"{_time(measuring)}, and its pods start and come back within {_time(limit - measuring)}; all of it takes at "
        f"most {_time(len(here.todo) * limit)}, and less where a verdict comes early or pods start sooner."
    )


def _time(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _walk(arguments: argparse.Namespace, here: Walk, limit: float) -> int:
    """One after the other. However it ends, the switch is as it was."""
    try:
        while here.todo:
            here, stopped = _one(arguments, here, limit)
            if stopped is not None:
                return _stopped(arguments, here, stopped)
    except KeyboardInterrupt:
        _say(f"\nInterrupted at {here.todo[0]}. {_left(arguments, here)} The same command goes on.")
        return exits.OF_OUTCOME[Outcome.INCONCLUSIVE]
    _patch(arguments, here.base, None)
    print(json.dumps([asdict(each) for each in here.done], indent=2) if arguments.output == "json" else _table(here))
    return 0


def _stopped(arguments: argparse.Namespace, here: Walk, at: Move) -> int:
    left = _left(arguments, here) if at.ours else "The switches are left as they are."
    _say(f"Stopped at {here.todo[0]}: {at.words}. {left} The same command goes on; with --anew it begins anew.")
    return exits.OF_OUTCOME[Outcome.INVALID if at.do == "Stop" else Outcome.INCONCLUSIVE]


def _one(arguments: argparse.Namespace, here: Walk, limit: float) -> tuple[Walk, Move | None]:
    """The first of `todo`: the walk after it, or the move that it stopped at."""
    deadline, said = time.monotonic() + limit, ""
    while True:
        move = _step(arguments, here)
        if move.found is not None:
            return here.with_result(move.found), None
        if move.do == "Stop" or time.monotonic() > deadline:
            return here, move
        if move.words not in ("", said):
            said = move.words
            _say(f"{here.todo[0]}: {said}")
        time.sleep(EVERY)


def _step(arguments: argparse.Namespace, here: Walk) -> Move:
    """What is next, done. A cluster that doesn't answer for a while is no reason to stop."""
    try:
        found = kubectl.the_object(arguments)
        move = walk.next_move(found, record_of(arguments, found), here)
        if move.do == "Switch":
            _patch(arguments, here.off(), here)
        elif move.do in ("Pause", "Retry"):
            request.ask(arguments, move.do.lower(), move.run, f"attribution of {here.todo[0]}")
        elif move.found is not None:
            _put_back(arguments, here.with_result(move.found))
    except InvalidObject as error:
        return Move("Wait", f"the cluster doesn't answer: {error}")
    return move


def _left(arguments: argparse.Namespace, here: Walk) -> str:
    """How the switches are left, in a sentence."""
    try:
        _put_back(arguments, here)
    except InvalidObject as error:
        off = json.dumps(here.base)
        return f"The switch could NOT be put back ({error}): set spec.engine.optimizations.disable to {off}."
    return "The switch is as it was, so its slots go back."


def _put_back(arguments: argparse.Namespace, here: Walk) -> None:
    """The switches as they were; the walk can go on."""
    _patch(arguments, here.base, here)


def _patch(arguments: argparse.Namespace, off: tuple[str, ...], here: Walk | None) -> None:
    """Switches and how far the walk is, in one write: there is no moment in which they disagree."""
    patch = {
        "metadata": {"annotations": {names.ANNOTATION_ATTRIBUTION: walk.text_of(here) if here else None}},
        "spec": {"engine": {"optimizations": {"disable": list(off)}}},
    }
    resource = f"{names.PLURAL}.{names.GROUP}"
    kubectl.call(arguments, "patch", resource, arguments.name, "--type", "merge", "-p", json.dumps(patch))


def _table(here: Walk) -> str:
    lines = ["Without each optimization, minus with it:"]
    for each in here.done:
        lines.append(f"{each.optimization}: {each.outcome} ({each.reason}), run {each.run}")
        lines += [f"  {_gate(gate)}" for gate in each.gates]
    return "\n".join(lines)


def _gate(gate: dict[str, Any]) -> str:
    interval = gate.get("interval")
    bounds = f" ({percent(interval[0])} to {percent(interval[1])})" if interval else ""
    return f"{gate['gate']}: {percent(gate.get('estimate'))}{bounds}, margin {100 * float(gate['margin']):g}%"
