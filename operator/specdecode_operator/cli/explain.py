"""`kubectl-specdecode explain`: why an object is where it is, what happens next and when, and what can be asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.build import runrecord
from specdecode_operator.cli import kubectl
from specdecode_operator.cli.status import NEXT, record_of, run_of

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

Json = Mapping[str, Any]

ASK: Final = {
    names.REASON_RUN_HELD: "promote it or abort it, or change the spec",
    names.REASON_REJECTED: "retry its run, or change the spec",
    names.REASON_RUN_ENDED: "retry its run, or change the spec",
    names.REASON_PAUSED: "resume it, abort it, or set spec.rollout.paused to false",
    names.REASON_CANARY: "pause, promote or abort it",
    names.REASON_UNFIT: "change what it names, or set spec.rollout.strategy to Replace",
    names.REASON_PLANNING: "take the change back; nothing has moved",
}
"""What people can do, by the reason of Progressing."""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser("explain", help="why it is where it is, what happens next and when")
    kubectl.add_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    found = kubectl.the_object(arguments)
    print("\n".join(lines(found, record_of(arguments, found))))
    return 0


def lines(found: Json, record: Json) -> Iterator[str]:
    """Sentences: what moves or why nothing does, what else is wrong, what is next, what can be done."""
    status = found.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    progressing = conditions.pop(
        names.CONDITION_PROGRESSING, {"reason": "", "message": "The operator has yet to see it."}
    )
    yield progressing["message"]
    wrong = (each for each in conditions.values() if each["status"] == "False")
    yield from (f"{each['type']}: {each['message']}" for each in wrong if each["message"] != progressing["message"])
    request = status.get("request") or {}
    if request.get("refused"):
        yield f"The request to {request['verb']} was refused. {request['refused']}."
    phase = run_of(found).get("phase")
    if phase in NEXT:
        yield f"Next: {NEXT[phase]}.{_when(phase, record)}"
    if progressing["reason"] in ASK:
        yield f"You can {ASK[progressing['reason']]}."


def _when(phase: str, record: Json) -> str:
    """When the step's windows start or end, as its plan has it."""
    files = runrecord.files_of(record)
    plans = sorted(name for name in files if name.startswith("plan-"))
    if not plans or phase not in ("Settling", "Measuring", "Judging"):
        return ""
    windows = json.loads(files[plans[-1]])["windows"]
    start, seconds, planned = (float(windows[key]) for key in ("start", "seconds", "planned"))
    if phase == "Settling":
        return f" The step's first window starts at {_clock(start)}."
    return f" Windows are {seconds:g} s; the step's last one closes at {_clock(start + seconds * planned)}."


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"
