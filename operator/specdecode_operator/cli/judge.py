"""`kubectl-specdecode judge`: the operator's verdict again, from a plan and samples in files, without a cluster."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.cli import exits
from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.plan import Plan, read_plan, schema
from specdecode_operator.gates.samples import MAX_LINE, Sample, read_samples
from specdecode_operator.gates.verdict import Verdict, as_json

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

MAX_PLAN: Final = 4 * 1024 * 1024
STDIN: Final = "-"

_HELP: Final = """\
The plan is the JSON of the run's ConfigMap; --schema plan prints what it may hold. Samples are JSON lines, one for each
pod, window, metric, step and batch bucket; --schema sample prints their fields. The verdict is a function of these two
alone: it is the operator's own, at any time, on any machine.

Exit codes: 0 Pass, 10 Fail, 20 Inconclusive, 30 Invalid, 64 what was given can't be read, 70 internal error.
"""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser(
        "judge",
        help="judge a run from its plan and samples",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--plan", metavar="FILE", type=Path, help="the registered plan, JSON")
    parser.add_argument("--samples", metavar="FILE", help="samples, JSON lines; - reads them from standard input")
    parser.add_argument("--through", metavar="N", type=_windows, help="judge the first N windows only")
    parser.add_argument("-o", "--output", choices=("json", "text"), default="json", help="default: json")
    parser.add_argument("--schema", choices=("plan", "sample"), help="print the JSON schema of a plan or of a sample")
    parser.set_defaults(run=run)


def _windows(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number of windows from 1 is wanted, found {text}")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Judge, print, and say it with the exit code."""
    if arguments.schema:
        print(json.dumps(schema() if arguments.schema == "plan" else Sample.model_json_schema(), indent=2))
        return 0
    missing = [name for name in ("plan", "samples") if getattr(arguments, name) is None]
    if missing:
        sys.stderr.write(f"kubectl-specdecode judge: --{' and --'.join(missing)} wanted; see --help\n")
        return exits.USAGE
    verdict = judge(_plan(arguments.plan), samples_of(arguments.samples), through=arguments.through)
    print(_text(verdict) if arguments.output == "text" else json.dumps(as_json(verdict), indent=2, allow_nan=False))
    return exits.OF_OUTCOME[verdict.outcome]


def _text(verdict: Verdict) -> str:
    return "\n".join((verdict.sentence, *(f"  {gate.sentence}" for gate in verdict.gates)))


def _plan(path: Path) -> Plan:
    with path.open("rb") as file:
        text = file.read(MAX_PLAN + 1)
    if len(text) > MAX_PLAN:
        raise InvalidObject(
            [FieldError(str(path), "a larger file", f"at most {MAX_PLAN} bytes", "give the run's plan")]
        )
    return read_plan(text)


def samples_of(name: str) -> Iterator[Sample]:
    """Samples of a file; `-` is standard input."""
    if name == STDIN:
        yield from read_samples(_lines(sys.stdin.buffer))
    else:
        with Path(name).open("rb") as file:
            yield from read_samples(_lines(file))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines, none read further than is needed to see that it is too long."""
    while line := file.readline(MAX_LINE + 2):
        yield line.rstrip(b"\r\n")
