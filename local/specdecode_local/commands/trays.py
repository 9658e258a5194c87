"""`trays [N]`: make it exactly N simulated GB200 trays; builds kwok first where it isn't yet."""

from __future__ import annotations

import argparse

from specdecode_local import cluster, trays
from specdecode_local.errors import LocalError
from specdecode_local.exclusive import exclusive
from specdecode_local.progress import Progress

MOST = 288
"""Sixteen racks; beyond that two cores are busy with heartbeats alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "count",
        type=number,
        nargs="?",
        metavar="N",
        help="how many there shall be; 0 removes them all; without it kwok is made to run and trays stay as they are",
    )


def number(text: str) -> int:
    """N. Raises LocalError, which reads better than a usage message that nobody asked for."""
    if not (text.isdecimal() and text.isascii() and int(text[:9]) <= MOST):
        raise LocalError(
            f"N is {text!r}; allowed is a whole number from 0 to {MOST}", remedy="`make trays N=18` is one full rack"
        )
    return int(text)


def run(args: argparse.Namespace) -> int:
    progress = Progress()
    with exclusive(progress):
        cluster.require_up()
        if args.count != 0:
            cluster.require_kwok(progress)
        if args.count is not None:
            with progress.step(f"{args.count} trays") as step:
                added, removed = trays.ensure(args.count)
                step.detail = f"{added} added, {removed} removed"
    return 0
