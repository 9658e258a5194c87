"""`image-ref NAME`: an image's reference by digest, for scripts and manifests."""

from __future__ import annotations

import argparse

from specdecode_local import images


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    print(images.ref(args.name))
    return 0
