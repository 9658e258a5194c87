"""`python -m bench.gpu`: measure one line and method on this GPU, or show what was measured (--read)."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path

from bench.gpu import arms, campaign, models, raw, report, trees
from bench.gpu.arms import Arm
from bench.gpu.campaign import Clock, Process
from bench.gpu.engine import ENVIRONMENT, Setup, command

from specdecode_engine import manifests
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest

TESTS = Path(__file__).resolve().parents[2]
"""The folder that `bench` is imported from."""

NOT_STOCK_OR_SERIES = 1
NOTHING_MEASURED = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, or read.  Returns the exit code."""
    args = _arguments(argv)
    if args.read:
        rounds = [raw.read(file) for file in args.read]
        print(report.report(rounds))
        if args.json:
            args.json.write_text(json.dumps(report.rows(rounds), indent=1) + "\n")
        return 0
    manifest = manifests.load(args.line)
    wanted = _wanted(args, manifest)
    round = raw.next_round(args.out, args.line, args.method) if args.round is None else args.round
    if args.dry_run:
        _show(wanted, args, round)
        return 0
    try:
        checked = trees.check(args.stock, args.patched, manifest)
    except Refused as refused:
        print(*refused.findings, sep="\n", file=sys.stderr)
        return NOT_STOCK_OR_SERIES
    return _measure(args, wanted, round, checked)


def _measure(args: argparse.Namespace, wanted: Sequence[Arm], round: int, checked: object) -> int:
    clock = Clock(time.monotonic(), 60 * args.minutes)
    args.out.mkdir(parents=True, exist_ok=True)
    head = {
        "format": raw.FORMAT,
        "line": args.line,
        "method": args.method,
        "round": round,
        "seed": args.seed,
        "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "arms": [arm.name for arm in wanted],
        "workload": {name.lower(): getattr(arms, name) for name in ("PREFIX", "TAIL", "TOKENS", "ACCEPTANCE")},
        "trees": checked,
    }
    file = raw.path(args.out, args.line, args.method, round)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        models.write(folder, args.method)
        setup = Setup(models=str(folder), method=args.method, seed=args.seed)

        def start(arm: Arm) -> AbstractContextManager[Process]:
            site = args.stock if arm.tree == "stock" else args.patched
            log = folder / f"{arm.name.replace(' ', '-')}.log"
            return campaign.started(arm, command(setup), environment(arm, site), log)

        visits = campaign.Round(head, file, clock).run(wanted, start, at_once=args.at_once, sweeps=args.sweeps)
    print(f"{visits} visits in {file}; show them with --read")
    return 0 if visits else NOTHING_MEASURED


def environment(arm: Arm, site: Path) -> dict[str, str]:
    """Of an engine: this process's, but for what it imports and what is switched off."""
    path = os.pathsep.join([str(site.resolve()), str(TESTS)])
    return os.environ | ENVIRONMENT | {"PYTHONPATH": path, "SPECDECODE_DISABLE": ",".join(arm.disabled)}


def _wanted(args: argparse.Namespace, manifest: Manifest) -> list[Arm]:
    """The arms of the line that were asked for."""
    switchable = [name for name in manifest.patched if manifest.switchable[name]]
    every = arms.arms(switchable, each_alone=args.alone)
    if unknown := set(args.arms or ()) - {arm.name for arm in every}:
        known = ", ".join(arm.name for arm in every)
        raise SystemExit(f"--arms: no {', '.join(sorted(unknown))} on {args.line}; there are {known}")
    return [arm for arm in every if not args.arms or arm.name in args.arms]


def _show(wanted: Sequence[Arm], args: argparse.Namespace, round: int) -> None:
    """What would be done: the engines, the comparisons, and the first sweeps."""
    names = [arm.name for arm in wanted]
    for arm in wanted:
        print(f"engine   {arm.name}: {arm.tree}{', without ' + ' '.join(arm.disabled) if arm.disabled else ''}")
    for each in arms.comparisons(names):
        print(f"compare  {each.shows}: {each.arm} / {each.against}")
    for visit in islice(arms.visits(names, seed=args.seed, round=round), 2 * len(names) * min(args.sweeps, 2)):
        print(f"visit    round {visit.round}, sweep {visit.sweep}.{visit.leg}: {visit.arm}")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--read", type=Path, nargs="+", metavar="FILE", help="raw files: print their tables, and end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="with --read: the arms' figures for machines too")
    parser.add_argument("--stock", type=Path, help="site folder of the release")
    parser.add_argument("--patched", type=Path, help="site folder of the release with our package and the whole series")
    parser.add_argument("--line", choices=manifests.lines(manifests.series_folder()), help="release line")
    parser.add_argument("--method", choices=sorted(arms.DRAFTED))
    parser.add_argument("--out", type=Path, help="folder for the raw files; a further run is a further round in it")
    parser.add_argument("--minutes", type=float, default=9.0, help="end within so many (default 9)")
    parser.add_argument("--at-once", type=int, default=8, help="engines that start beside each other (default 8)")
    parser.add_argument("--sweeps", type=int, default=100, help="at most so many in this round (default 100)")
    parser.add_argument("--round", type=int, help="number of this one (default: the first that has no file in OUT)")
    parser.add_argument("--seed", type=int, default=1, help="of prompts and order (default 1)")
    parser.add_argument("--alone", action="store_true", help="each optimization by itself too")
    parser.add_argument("--arms", nargs="*", metavar="NAME", help="only these engines")
    parser.add_argument("--dry-run", action="store_true", help="print engines and schedule, and start nothing")
    args = parser.parse_args(argv)
    needed = (
        ()
        if args.read
        else ("line", "method", "out")
        if args.dry_run
        else ("stock", "patched", "line", "method", "out")
    )
    if missing := [f"--{name}" for name in needed if getattr(args, name) is None]:
        parser.error(f"needed: {', '.join(missing)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
