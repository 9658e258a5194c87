"""The command of a bench that keeps a raw file and shows it: record and show, or show what is there."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gpu import arms, raw

Record = Callable[[str, Path, float], None]
"""(method, raw file, seconds): keep what is measured in so long."""

Text = Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], str]
"""(head, requests) of a raw file, as a person reads them."""


def main(
    argv: Sequence[str] | None, *, prog: str, about: str, minutes: float, until: str, record: Record, text: Text
) -> int:
    """Record and show, or show.  `minutes` is the default, and `until` says what ends then.  Returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {prog}", description=about)
    parser.add_argument("--method", choices=sorted(arms.DRAFTED))
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the raw file (.json.gz)")
    parser.add_argument("--minutes", type=float, default=minutes, help=f"{until} (default {minutes:g})")
    parser.add_argument("--read", type=Path, metavar="FILE", help="show this raw file instead")
    args = parser.parse_args(argv)
    if not args.read and not (args.method and args.out):
        parser.error("needed: --method and --out, or --read")
    if not args.read:
        record(args.method, args.out, 60 * args.minutes)
    head, *requests = raw.lines(args.read or args.out)
    print(text(head, requests))
    return 0
