"""`up`: the cluster, from whatever is there."""

from __future__ import annotations

import argparse

from specdecode_local import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: what is up is what the checkout says."""


def run(args: argparse.Namespace) -> int:
    cluster.up()
    return 0
