"""`kubectl-specdecode status`: where an object stands, what each gate says, and what happens next."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.build import runrecord
from specdecode_operator.cli import kubectl
from specdecode_operator.gates.verdict import percent

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

Json = Mapping[str, Any]

EVERY: Final = 5.0
CLEAR: Final = "\033[H\033[J"
HALF: Final = 16
"""Columns of a bar on each side of no difference; the outermost are twice the margin."""

NEXT: Final = {
    "Planning": "the plan is registered once the stable pods' history allows it; nothing moves before",
    "Swapping": "slots move one at a time, each when its pod serves",
    "Settling": "the first window starts once all of the step's slots have served for a while",
    "Measuring": "a look follows each window; the gates' bounds narrow",
    "Judging": "the step's time is over, or the verdict waits for minDuration; what is undecided is as the step says",
    "Promoting": "the candidate takes the other slots, one at a time",
    "Ended": "nothing, until the spec changes or somebody asks to retry",
}
"""By the run's phase."""

_HELP: Final = """\
Each gate's bar shows candidate minus stable: o is the estimate, = its interval, | the margin, : no difference.
"""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser(
        "status",
        help="where an object stands, and what its canary's gates say",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kubectl.add_flags(parser)
    parser.add_argument("--watch", "-w", action="store_true", help=f"again every {EVERY:g} s, until interrupted")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it, once or again and again."""
    while True:
        text = "\n".join(
            lines(found := kubectl.the_object(arguments), runrecord.newest_look(record_of(arguments, found)))
        )
        print(f"{CLEAR}{text}" if arguments.watch and sys.stdout.isatty() else text, flush=True)
        if not arguments.watch:
            return 0
        time.sleep(EVERY)


def record_of(arguments: argparse.Namespace, found: Json) -> Json:
    """The ConfigMap of the run's record; nothing where there is none, or none that may be read."""
    run_id = run_of(found).get("id")
    if not run_id:
        return {}
    name = names.run_record(found["metadata"]["name"], run_id)
    try:
        record: Json = json.loads(kubectl.call(arguments, "get", "configmap", name, "-o", "json"))
    except InvalidObject:
        return {}
    return record


def lines(found: Json, look: Json) -> Iterator[str]:
    """The object for people: conditions, arms, the run, its gates, what is next."""
    status = found.get("status") or {}
    yield f"{found['metadata']['namespace']}/{found['metadata']['name']}"
    yield from (f"  {each['type']}={each['status']} {each['reason']}" for each in status.get("conditions") or ())
    yield from (_arm(role, status[role]) for role in ("stable", "candidate") if status.get(role))
    run = run_of(found)
    if run:
        about = f" {run['id']}" if run.get("id") else ""
        yield f"  run{about}: step {run['step']}, {run['phase']} since {run['since']}"
        yield f"    {run.get('message', '')}"
    yield from (f"    {bar(gate)}" for gate in look.get("gates") or () if run.get("phase") != "Planning")
    yield from (f"  {each['time']} {each['revision']}: {each['outcome']} ({each['reason']})" for each in _last(status))
    if run.get("phase") in NEXT:
        yield f"  next: {NEXT[run['phase']]}"


def bar(gate: Json) -> str:
    """A gate's interval against its margin, drawn from twice the margin on one side to twice on the other."""
    margin, estimate, interval = float(gate["margin"]), gate.get("estimate"), gate.get("interval")
    cells = [" "] * (2 * HALF + 1)
    for value in range(_place(interval[0], margin), _place(interval[1], margin) + 1) if interval else ():
        cells[value] = "="
    cells[HALF] = ":"
    cells[_place(-margin, margin)] = cells[_place(margin, margin)] = "|"
    if estimate is not None:
        cells[_place(estimate, margin)] = "o"
    bounds = f" ({percent(interval[0])} to {percent(interval[1])})" if interval else ""
    return f"{gate['gate']:<12} [{''.join(cells)}] {percent(estimate)}{bounds}, margin {100 * margin:g}%"


def _place(value: float, margin: float) -> int:
    """The column of an effect; what is further out is at the edge."""
    return HALF + round(max(-1.0, min(1.0, value / (2 * margin))) * HALF)


def _arm(role: str, arm: Json) -> str:
    shown = f"{arm['slots']} slots, {arm['ready']} ready, weight {arm['weight']}"
    return f"  {role:<9} {arm['revision']} ({arm['engineVersion']}): {shown}"


def run_of(found: Json) -> Json:
    """The run that status names; empty if it names none."""
    run: Json = (found.get("status") or {}).get("run") or {}
    return run


def _last(status: Json) -> tuple[Json, ...]:
    """The last three verdicts."""
    return tuple(status.get("verdicts") or ())[-3:]
