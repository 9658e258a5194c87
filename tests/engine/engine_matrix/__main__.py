"""Runs the matrix: `python -m engine_matrix --out FOLDER`.  Exit code 1 if something did not hold."""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine_matrix import image, report, serving, variants, workload
from engine_matrix.image import Image
from engine_matrix.report import Run

LINES = ("0.30.0", "0.33.0")


def main() -> int:
    """Run, print, keep."""
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    carried: dict[str, list[str]] = {}
    for line in args.line or LINES:
        with image.unpacked(f"engine-cpu-{line}") as engines:
            carried[line] = engines.carried()
            for run in _line(line, engines, carried[line], args):
                runs.append(run)
                _keep(args, runs, carried)
    failed = report.failures(runs, carried)
    print(report.table(runs), *failed, sep="\n")
    return 1 if failed else 0


def _line(line: str, engines: Image, carried: Sequence[str], args: argparse.Namespace) -> Iterator[Run]:
    """Every engine of one line, one after the other."""
    for target, drafter in variants.QUICK_PAIRS if args.quick else variants.PAIRS:
        for variant in variants.of(carried, quick=args.quick):
            began = time.monotonic()
            log = args.out / f"{line}-{target}-{drafter}-{variant.name.replace(',', '').replace(' ', '-')}.log"
            with serving.engine(engines, variant, target, drafter, log) as url:
                run = Run(line, target, drafter, variant, workload.run(url, tokens=args.tokens))
            print(f"{run.title}: {time.monotonic() - began:.0f} s", flush=True)
            yield run


def _keep(args: argparse.Namespace, runs: list[Run], carried: dict[str, list[str]]) -> None:
    """What there is so far: a run of an hour may be ended early."""
    rows = [{**dataclasses.asdict(run), "variant": run.variant.name} for run in runs]
    failed = report.failures(runs, carried)
    (args.out / "results.json").write_text(json.dumps({"failures": failed, "runs": rows}, indent=1) + "\n")
    (args.out / "results.md").write_text(report.table(runs))
    if args.page:
        args.page.write_text(report.kept(args.page.read_text(), runs))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="engine_matrix", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for results.json, results.md and the logs")
    parser.add_argument("--page", type=Path, help="a Markdown page: its table gets a row an engine")
    parser.add_argument("--line", action="append", choices=LINES, help="only this line (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="one pair of models; stock, all, and one switched off")
    parser.add_argument("--tokens", type=int, default=24, help="tokens of each answer (default 24)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
