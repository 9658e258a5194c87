"""Runs the matrix: `python -m engine_matrix --out FOLDER`.  Exit code 1 if something did not hold.

The most telling engines come first, and what an engine said is kept in FOLDER: a run that was ended goes on where it
was, as long as the images are the same.
"""

import argparse
import contextlib
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine_matrix import forked, image, quick, report, serving, variants, workload
from engine_matrix.image import Image
from engine_matrix.kept import Kept
from engine_matrix.report import Run
from engine_matrix.variants import Variant
from engine_matrix.workload import Result

LINES = ("0.30.0", "0.33.0")


def main() -> int:
    """Run, print, keep."""
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as unpacked:
        lines = args.line or LINES
        engines = {line: unpacked.enter_context(image.unpacked(f"engine-cpu-{line}")) for line in lines}
        failed = run(engines, args)
    return 1 if failed else 0


def run(engines: dict[str, Image], args: argparse.Namespace) -> list[str]:
    """Every engine of these lines' images that has not been run yet.  Returns what does not hold."""
    carried = {line: of.carried() for line, of in engines.items()}
    compared = {line: list(variants.of(names, quick=args.quick)) for line, names in carried.items()}
    runs: list[Run] = []
    for worth in sorted({variant.worth for of in compared.values() for variant in of}):
        for target, drafter in variants.QUICK_PAIRS if args.quick else variants.PAIRS:
            for line, of in engines.items():
                now = [variant for variant in compared[line] if variant.worth == worth]
                for one in _pair(line, of, target, drafter, now, args):
                    runs.append(one)
                    _keep(args, runs, carried)
    failed = report.failures(runs, carried)
    print(report.table(runs), *failed, sep="\n")
    return failed


def _pair(
    line: str, engines: Image, target: str, drafter: str, compared: Sequence[Variant], args: argparse.Namespace
) -> Iterator[Run]:
    """The engines of one line and pair of models, those that were run before too."""
    asked = {"image": engines.reference, "tokens": args.tokens, "server": not args.forked}
    kept = Kept(args.out, line, asked)
    found = [kept.load(target, drafter, variant) for variant in compared]
    yield from (run for run in found if run)
    missing = [variant for variant, run in zip(compared, found, strict=True) if not run]
    began = time.monotonic()
    ask = _forked if args.forked else _served
    for variant, result in ask(engines, target, drafter, missing, kept, args.tokens):
        run = Run(line, target, drafter, variant, result)
        kept.save(run)
        print(f"{run.title}: {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        yield run


def _served(
    engines: Image, target: str, drafter: str, missing: Sequence[Variant], kept: Kept, tokens: int
) -> Iterator[tuple[Variant, Result]]:
    """Each engine behind its server, one after the other."""
    for variant in missing:
        log = kept.path(target, drafter, variant, "log")
        with serving.engine(engines, variant, target, drafter, log) as url:
            yield variant, workload.run(url, tokens=tokens)


def _forked(
    engines: Image, target: str, drafter: str, missing: Sequence[Variant], kept: Kept, tokens: int
) -> Iterator[tuple[Variant, Result]]:
    """Each engine without a server, forked from one process.  Raises RuntimeError if one of them ends early."""
    if not missing:
        return
    asked = quick.asked(missing, target, drafter, tokens=tokens, together=True)
    command = engines.command(["python3", "-c", Path(forked.__file__).read_text(), asked])
    log = kept.path(target, drafter, missing[0], "log")
    answered = 0
    with serving.running(command, log, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _, result in quick.results(process.stdout):
            yield missing[answered], result
            answered += 1
    if answered < len(missing):
        said = "\n".join(log.read_text().splitlines()[-20:])
        raise RuntimeError(f"{kept.line} {target}+{drafter} {missing[answered].name}: no answer\n{said}")


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
    parser.add_argument("--forked", action="store_true", help="no server, each engine a fork: a third of the time")
    parser.add_argument("--tokens", type=int, default=24, help="tokens of each answer (default 24)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
