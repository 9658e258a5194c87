"""`registry up|down`: the image registry alone, for building images before there is a cluster."""

from __future__ import annotations

import argparse

from specdecode_local import privilege, registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["up", "down"])


def run(args: argparse.Namespace) -> int:
    privilege.require_root("the registry's state lies in /var/lib")
    if args.action == "up":
        print(f"registry: {registry.up().value}")
    else:
        registry.down()
        print("registry: stopped")
    return 0
