"""`clean`: the caches; refused while the cluster runs from them."""

from __future__ import annotations

import argparse

from specdecode_local import clean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(args: argparse.Namespace) -> int:
    print(clean.clean())
    return 0
