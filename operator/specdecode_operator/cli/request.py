"""`kubectl-specdecode promote | abort | pause | resume | retry`: ask something of an object's canary."""

from __future__ import annotations

import argparse
import json
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.cli import exits, kubectl
from specdecode_operator.gates.verdict import Outcome

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

VERBS: Final = {
    "promote": "give the candidate all slots, whatever the gates say",
    "abort": "give its slots back",
    "pause": "begin no swap, no step and no promotion",
    "resume": "go on after a pause",
    "retry": "try a revision again whose run has ended",
}
PATIENCE: Final = 30.0
"""Seconds until the operator must have answered."""
EVERY: Final = 0.5
PLAIN: Final = str.maketrans({'"': "'", "\\": "/", "{": "(", "}": ")", "\n": " ", "\r": " ", "\t": " "})
"""What the policy on requests can't look through, and what stands for it in a reason."""

_HELP: Final = """\
The request names the run that status shows now, so it decides no other. It is applied once.

Exit codes: 0 applied, 20 not answered within 30 s (the operator still may), 30 refused, 64 what was asked can't be
asked.
"""


def add_to(commands: Commands) -> None:
    """Declare one subcommand for each verb."""
    for verb, what in VERBS.items():
        parser = commands.add_parser(
            verb, help=f"canary: {what}", epilog=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        kubectl.add_flags(parser)
        parser.add_argument("--reason", default="", help="why; it is kept with the run")
        parser.add_argument("--run", dest="run_id", help="the run; default: the current one")
        parser.set_defaults(run=run, verb=verb)


def run(arguments: argparse.Namespace) -> int:
    """Ask, and wait for the operator's answer."""
    run_id = arguments.run_id or _current(kubectl.the_object(arguments))
    return _await(arguments, ask(arguments, arguments.verb, run_id, arguments.reason), run_id)


def ask(arguments: argparse.Namespace, verb: str, run_id: str, reason: str) -> str:
    """Write a request; its id."""
    request = {
        "id": uuid.uuid4().hex[:12],
        "verb": verb,
        "runID": run_id,
        "by": _who(arguments),
        "reason": reason.translate(PLAIN),
    }
    text = f"{names.ANNOTATION_REQUEST}={json.dumps(request, ensure_ascii=False)}"
    kubectl.call(arguments, "annotate", f"{names.PLURAL}.{names.GROUP}", arguments.name, "--overwrite", text)
    return request["id"]


def _current(found: dict[str, Any]) -> str:
    run_id = ((found.get("status") or {}).get("run") or {}).get("id")
    if not run_id:
        raise InvalidObject(
            [FieldError("status.run.id", "no run", "a canary's run", "wait until one is registered, or give --run")]
        )
    return str(run_id)


def _who(arguments: argparse.Namespace) -> str:
    """Whom the API server takes us for; empty where it doesn't say."""
    try:
        answer = json.loads(kubectl.call(arguments, "auth", "whoami", "-o", "json"))
        return str(answer["status"]["userInfo"]["username"])
    except (InvalidObject, ValueError, KeyError):
        return ""


def _await(arguments: argparse.Namespace, wanted: str, run_id: str) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = (kubectl.the_object(arguments).get("status") or {}).get("request") or {}
        if answer.get("id") == wanted:
            refused = answer.get("refused")
            print(f"Refused: {refused}." if refused else f"Asked to {arguments.verb} run {run_id}: applied.")
            return exits.OF_OUTCOME[Outcome.INVALID] if refused else 0
        time.sleep(EVERY)
    print(f"Asked to {arguments.verb} run {run_id}; the operator hasn't answered yet. It will once it is back.")
    return exits.OF_OUTCOME[Outcome.INCONCLUSIVE]
