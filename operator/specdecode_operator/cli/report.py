"""`kubectl-specdecode report`: a canary's run as one HTML file, from its record in the cluster or in a file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.cli import exits, kubectl
from specdecode_operator.report.case import case_of
from specdecode_operator.report.page import as_json, page

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

STDIN: Final = "-"
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a file: the records and plans of five runs, and more."""
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_HELP: Final = """\
The page holds all that it shows: no scripts, nothing from the network. It is made from the run's record alone, the
ConfigMaps NAME-plan-RUN and NAME-run-RUN, and judges it again. To keep a run, and to make its page at any time:

  kubectl get configmap -l specdecode.io/name=NAME -o yaml > runs.yaml
  kubectl-specdecode report --from runs.yaml > report.html

Exit codes: 0 a report was printed, whatever it says (judge's say the verdict), 64 there is no such run, or its record
can't be read, 70 internal error.
"""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser(
        "report",
        help="print a canary's run as an HTML page",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kubectl.add_flags(parser, name_needed=False)
    parser.add_argument("--from", dest="source", metavar="FILE", help="the run's ConfigMaps, YAML or JSON, instead of "
                        "a cluster; - reads standard input")  # fmt: skip
    parser.add_argument("--run", dest="run_id", default="", metavar="ID", help="default: the newest")
    parser.add_argument("--note", default="", metavar="TEXT", help="a note that stands above all")
    parser.add_argument("-o", "--output", choices=("html", "json"), default="html", help="default: html")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if not (arguments.name or arguments.source):
        sys.stderr.write("kubectl-specdecode report: a name, or --from, wanted; see --help\n")
        return exits.USAGE
    maps = _from_file(arguments.source) if arguments.source else _from_cluster(arguments)
    case = case_of(maps, name=arguments.name or "", run=arguments.run_id)
    text = page(case, note=arguments.note) if arguments.output == "html" else json.dumps(as_json(case), indent=2)
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "replace"))
    return 0


def _from_cluster(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    selector = f"{names.selector(arguments.name)},{names.LABEL_RUN}"
    return list(_objects(json.loads(kubectl.call(arguments, "get", "configmap", "-l", selector, "-o", "json"))))


def _from_file(name: str) -> list[dict[str, Any]]:
    """ConfigMaps of a file.

    Raises:
        InvalidObject: it is neither YAML nor JSON, or too large.
    """
    path = "standard input" if name == STDIN else name
    text = sys.stdin.buffer.read(LARGEST + 1) if name == STDIN else _head(Path(name))
    if len(text) > LARGEST:
        raise InvalidObject([FieldError(path, "a larger file", f"at most {LARGEST} bytes", "give the runs alone")])
    try:
        return [each for document in _documents(text) for each in _objects(document)]
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidObject(
            [FieldError(path, what, "ConfigMaps as kubectl get -o yaml writes them", "write the file anew")]
        ) from None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST + 1)


def _documents(text: bytes) -> Iterator[Any]:
    """Of YAML none with aliases: a few lines of them can stand for more than any memory."""
    if text.lstrip()[:1] == b"{":
        yield json.loads(text)
    elif any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=LOADER)):
        raise ValueError("an alias, of which kubectl writes none")
    else:
        yield from yaml.load_all(text, Loader=LOADER)


def _objects(document: Any) -> Iterator[dict[str, Any]]:
    """The ConfigMaps of one document: itself, or those that it lists."""
    if not isinstance(document, dict):
        return
    items = document.get("items")
    for each in items if isinstance(items, list) else (document,):
        if isinstance(each, dict) and each.get("kind") == "ConfigMap":
            yield each
