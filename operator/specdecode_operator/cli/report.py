"""`kubectl-specdecode report`: a canary's run as one HTML file, from its record in the cluster or in a file."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.cli import exits, kubectl, manifests
from specdecode_operator.report.case import case_of
from specdecode_operator.report.page import as_json, page

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

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
    maps = manifests.read(arguments.source, "ConfigMap") if arguments.source else _from_cluster(arguments)
    case = case_of(maps, name=arguments.name or "", run=arguments.run_id)
    text = page(case, note=arguments.note) if arguments.output == "html" else json.dumps(as_json(case), indent=2)
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "replace"))
    return 0


def _from_cluster(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    selector = f"{names.selector(arguments.name)},{names.LABEL_RUN}"
    listed = json.loads(kubectl.call(arguments, "get", "configmap", "-l", selector, "-o", "json"))
    return list(manifests.objects(listed, "ConfigMap"))
