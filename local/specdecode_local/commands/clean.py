"""`clean`: no cluster, and no caches either."""

from __future__ import annotations

import argparse

from specdecode_local import clean
from specdecode_local.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(args: argparse.Namespace) -> int:
    print(clean.clean(Progress()))
    return 0
