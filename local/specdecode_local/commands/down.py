"""`down`: no cluster, and no trace of one but the cache."""

from __future__ import annotations

import argparse

from specdecode_local import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: it takes everything down, whatever state it is in."""


def run(args: argparse.Namespace) -> int:
    cluster.down()
    return 0
