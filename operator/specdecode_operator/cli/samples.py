"""`kubectl-specdecode samples`: what Prometheus has of an object's pods, as the JSON lines that `judge` reads."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.cli import backend, exits
from specdecode_operator.gates.plan import MAX_WINDOWS
from specdecode_operator.gates.verdict import Outcome
from specdecode_operator.gates.windows import FEWEST_SCRAPES, Grid
from specdecode_operator.metrics.backends import Backend
from specdecode_operator.metrics.errors import MetricsError, TooMuch
from specdecode_operator.metrics.query import Metric, Question, queries

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Any]

DEFAULT: Final = (*names.METRIC_SPANS, names.METRIC_ACCEPTANCE, names.METRIC_DROPPED)
UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

_HELP: Final = """\
Counters are read as they were scraped and differenced for each process of each pod. What makes a window unfit (a reset,
a gap, a series twice) is a flag on its samples, and no reason to stop. --config takes the JSON of the chart's
metricsBackends, as the operator gets it, with credentials and CA as paths of files.

Exit codes: 0 samples were printed, 20 there are none (no data, or no answer), 64 what was asked can't be asked,
70 internal error.
"""


def add_to(commands: Commands) -> None:
    """Declare the subcommand."""
    parser = commands.add_parser(
        "samples",
        help="print what Prometheus has of an object's pods, for judge",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    backend.add_flags(parser, required=True)
    parser.add_argument("--namespace", "-n", required=True, help="the object's namespace")
    parser.add_argument("--name", required=True, help="the object's name")
    parser.add_argument("--revision", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--pod-uid", action="append", default=[], help="flag samples of other pods; may be repeated")
    parser.add_argument("--from", dest="since", metavar="TIME", type=_time, required=True, help="start of the first "
                        "window: 2026-01-31T12:00:00Z, or seconds since 1970")  # fmt: skip
    parser.add_argument("--to", dest="until", metavar="TIME", type=_time, required=True, help="end of the last window")
    parser.add_argument("--window", metavar="TIME", type=_seconds, default=60.0, help="length of a window (60s)")
    parser.add_argument(
        "--scrape-interval", metavar="TIME", type=_seconds, default=10.0, help="the object's scrapeInterval (10s)"
    )
    parser.add_argument("--metric", action="append", default=[], type=_metric, help="instead of all that gates read")
    parser.add_argument("--buckets", action="store_true", help="with histograms' buckets, which quantiles need")
    parser.add_argument("--show-queries", action="store_true", help="print the queries instead of asking them")
    parser.set_defaults(run=run)


def _time(text: str) -> float:
    if re.fullmatch(r"[+-]?[0-9.]+", text):
        return float(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"a time with its zone is wanted ({text}Z), found {text}")
    return moment.timestamp()


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,6})(ms|s|m|h)", text)
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"a time like 500ms, 30s, 2m or 1h is wanted, found {text}")
    return int(found[1]) * UNITS[found[2]]


def _metric(text: str) -> str:
    if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,200}", text):
        raise argparse.ArgumentTypeError(f"a metric's name is wanted, without labels, found {text}")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Ask, print, and say it with the exit code."""
    question, whom = _question(arguments), backend.chosen(arguments, arguments.namespace)
    if arguments.show_queries:
        print("\n".join(_queries(question, whom)))
        return 0
    try:
        asyncio.run(_print(question, whom))
    except MetricsError as error:
        sys.stderr.write(f"kubectl-specdecode samples: {error}\n")
        return exits.USAGE if isinstance(error, TooMuch) else exits.OF_OUTCOME[Outcome.INCONCLUSIVE]
    return 0


def _queries(question: Question, whom: Backend) -> Iterator[str]:
    for piece in backend.pieces(question):
        identity, measured = queries(piece, whom.labels)
        yield str(identity)
        yield from (str(query) for _, query in measured)


async def _print(question: Question, whom: Backend) -> None:
    async for found in backend.answers(question, whom):
        for sample in sorted(found, key=lambda one: (one.window_start, one.revision, one.pod_uid, one.metric)):
            print(sample.model_dump_json(exclude_defaults=True))


def _question(arguments: argparse.Namespace) -> Question:
    """What the arguments ask for.

    Raises:
        InvalidObject: the times make no windows.
    """
    grid = _grid(arguments)
    return Question(
        namespace=arguments.namespace,
        name=arguments.name,
        grid=grid,
        metrics=tuple(Metric(name, arguments.buckets) for name in dict.fromkeys(arguments.metric or DEFAULT)),
        revisions=tuple(arguments.revision),
        pods=frozenset(arguments.pod_uid),
    )


def _grid(arguments: argparse.Namespace) -> Grid:
    window, interval = arguments.window, arguments.scrape_interval
    count = (arguments.until - arguments.since) / window
    faults = [
        (abs(count - round(count)) > 1e-6 or count < 0.5, "--to", f"{count:g} windows", "a whole number from 1",
         "give a time that lies whole windows after --from"),
        (count > MAX_WINDOWS, "--to", f"{count:g} windows", f"at most {MAX_WINDOWS}", "ask for less at a time"),
        (window < (FEWEST_SCRAPES - 1) * interval, "--window", f"{window:g} s at a scrape each {interval:g} s",
         f"{FEWEST_SCRAPES} scrapes a window", "take longer windows"),
        (not 0 <= arguments.since < 1e11, "--from", f"{arguments.since:g}", "a time since 1970", "correct it"),
        (arguments.until + 2 * interval > time.time(), "--to", "a window that isn't over, or only just",
         "one that ended two scrapes ago", "ask again later: what is scraped late would be missing"),
    ]  # fmt: skip
    if errors := [FieldError(*fault) for wrong, *fault in faults if wrong]:
        raise InvalidObject(errors)
    return Grid(start=arguments.since, seconds=window, count=round(count), scrape_interval=interval)
