"""`status`: every program, and what the cluster says of itself. Exit status 0 when all is well, 3 when not."""

from __future__ import annotations

import argparse

from specdecode_local import status

NOT_WELL = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(args: argparse.Namespace) -> int:
    report = status.collect()
    print(status.table(report))
    return 0 if report.well else NOT_WELL
