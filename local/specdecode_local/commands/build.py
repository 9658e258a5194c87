"""`build`: the Go programs alone, for whoever needs kubectl or helm before a cluster."""

from __future__ import annotations

import argparse

from specdecode_local import gobuild
from specdecode_local.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [group.name for group in gobuild.GROUPS]
    parser.add_argument(
        "groups", nargs="*", metavar="GROUP", help=f"one of {', '.join(names)}; the cluster's when absent"
    )


def run(args: argparse.Namespace) -> int:
    gobuild.build_all(Progress(), args.groups or None)
    return 0
