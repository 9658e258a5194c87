"""The decision benchmark: how often each judge is wrong, undecided, and how long it takes, in worlds of known truth.

    make bench-gates RUNS=10000

The judge under test is `specdecode_operator.gates` itself. The same seed gives the same table. Every cell has its own
random stream, so cells can be run alone (--worlds, --slots) and give the same numbers.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from bench.rules import RULES, THRESHOLDS, Outcome, Rule, readings
from bench.worlds import WORLDS, Traces, World, plan_for, simulate

from specdecode_operator.gates.arrays import Floats
from specdecode_operator.gates.course import follow
from specdecode_operator.gates.decide import first_decision
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.power import Run, power

SLOTS = ((3, 1), (7, 1), (15, 1), (12, 4), (9, 9), (2, 2))
MARGIN = 0.02
WINDOWS = 80
DOUBLED = math.log(2)
TRUTHS = {"same": 0.0, "margin": MARGIN, "margin+1": MARGIN + 0.01, "margin+2": MARGIN + 0.02}
BATCH = 250
"""Runs simulated at once: bounds the memory."""


@dataclass(frozen=True)
class Row:
    """One judge on one cell. Shares of runs, with 95% intervals."""

    world: str
    slots: str
    judge: str
    threshold: float | None
    runs: int
    powered: bool
    false_abort: tuple[float, float, float]
    passed: dict[str, tuple[float, float, float]]
    """Promoted, by truth."""
    failed: dict[str, tuple[float, float, float]]
    undecided: dict[str, float]
    minutes: dict[str, float]
    """Median time to decide, by truth."""
    doubled_in_three: tuple[float, float, float] | None
    """Of a doubled span: stopped within three windows."""


@dataclass
class Tally:
    """Outcomes of one judge, by truth, as they come in."""

    promoted: dict[str, list[np.ndarray]]
    aborted: dict[str, list[np.ndarray]]
    minutes: dict[str, list[np.ndarray]]

    @classmethod
    def empty(cls) -> Tally:
        return cls(*({truth: [] for truth in (*TRUTHS, "doubled")} for _ in range(3)))

    def add(self, truth: str, outcome: Outcome) -> None:
        self.promoted[truth].append(outcome.promoted)
        self.aborted[truth].append(outcome.aborted)
        self.minutes[truth].append(outcome.minutes)


def wilson(share: float, runs: int) -> tuple[float, float, float]:
    """A share with its 95% score interval (Wilson 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return share, max(0.0, centre - half), min(1.0, centre + half)


def ours(plan: Plan, traces: Traces, effect: float) -> Outcome:
    """The judge under test."""
    course = follow(plan, plan.gates[0], traces.stable, traces.trays, traces.with_effect(effect))
    decision = first_decision(course, traces.stable, np.ones(plan.windows.planned, bool))
    minutes = np.where(decision.at >= 0, decision.at + 1, plan.windows.planned) * plan.windows.seconds / 60
    return Outcome(decision.passed, decision.failed, minutes)


def cell(world: World, slots: tuple[int, int], runs: int, seed: int, rules: tuple[Rule, ...]) -> list[Row]:
    """All judges on one world and one split of the slots."""
    plan = plan_for(world, *slots, MARGIN, WINDOWS)
    name = f"{slots[0]}v{slots[1]}"
    rng = np.random.default_rng([seed, zlib.crc32(f"{world.name}/{name}".encode())])
    mine = Tally.empty()
    theirs = {
        (rule.name, query, limit): Tally.empty()
        for rule in rules
        for query in ("past", "ratio")
        for limit in THRESHOLDS
    }
    for size in _batches(runs):
        traces = simulate(world, plan, size, rng)
        for truth, effect in (*TRUTHS.items(), ("doubled", DOUBLED)):
            mine.add(truth, ours(plan, traces, effect))
            values = traces.with_effect(effect).values
            for rule in rules if truth != "doubled" else ():
                for query, found in readings(values, traces.cells.weights, traces.stable, traces.past, rule).items():
                    for limit in THRESHOLDS:
                        theirs[rule.name, query, limit].add(truth, rule.decide(~(found <= limit)))
    powered = power(Run(plan.gates[0].noise, MARGIN, *slots, WINDOWS, tracking=plan.gates[0].tracking)).passes
    rows = [_row(world, name, "this one", None, runs, powered, mine)]
    for rule in rules:
        rows.append(_row(world, name, f"{rule.name}, past +2%", 0.02, runs, powered, theirs[rule.name, "past", 0.02]))
        rows.append(
            _best(world, name, rule, runs, powered, {limit: theirs[rule.name, "ratio", limit] for limit in THRESHOLDS})
        )
    return rows


def _batches(runs: int) -> Iterator[int]:
    for begun in range(0, runs, BATCH):
        yield min(BATCH, runs - begun)


def _best(world: World, slots: str, rule: Rule, runs: int, powered: bool, by_limit: dict[float, Tally]) -> Row:
    """The rule with the threshold that serves it best, which it could not know: chosen on these very runs."""

    def badness(limit: float) -> float:
        tally = by_limit[limit]
        return max(_share(tally.aborted["same"]), _share(tally.promoted["margin+1"]))

    best = min(by_limit, key=badness)
    return _row(world, slots, f"{rule.name}, ratio, best", best, runs, powered, by_limit[best])


def _share(found: list[np.ndarray]) -> float:
    return float(np.concatenate(found).mean())


def _row(world: World, slots: str, judge: str, threshold: float | None, runs: int, powered: bool, tally: Tally) -> Row:
    passed = {truth: wilson(_share(tally.promoted[truth]), runs) for truth in TRUTHS}
    failed = {truth: wilson(_share(tally.aborted[truth]), runs) for truth in TRUTHS}
    quick = None
    if tally.aborted["doubled"]:
        soon: list[Floats] = [
            aborted & (minutes <= 1.5)
            for aborted, minutes in zip(tally.aborted["doubled"], tally.minutes["doubled"], strict=True)
        ]
        quick = wilson(_share(soon), runs)
    return Row(
        world=world.name,
        slots=slots,
        judge=judge,
        threshold=threshold,
        runs=runs,
        powered=powered,
        false_abort=failed["same"],
        passed=passed,
        failed=failed,
        undecided={truth: 1 - passed[truth][0] - failed[truth][0] for truth in TRUTHS},
        minutes={truth: float(np.median(np.concatenate(tally.minutes[truth]))) for truth in TRUTHS},
        doubled_in_three=quick,
    )


def table(rows: Sequence[Row]) -> str:
    """As text: percent of runs."""
    head = (
        f"{'world':34}{'slots':7}{'judge':26}{'false abort':>12}{'pass':>7}{'@margin':>9}{'@+1':>7}{'@+2':>7}"
        f"{'fail@m':>8}{'@+1':>7}{'@+2':>7}{'undec.':>8}{'min':>6}{'x2':>7}"
    )
    lines = [head]
    for row in rows:
        share = {key: 100 * row.passed[key][0] for key in TRUTHS}
        fail = {key: 100 * row.failed[key][0] for key in TRUTHS}
        quick = "" if row.doubled_in_three is None else f"{100 * row.doubled_in_three[0]:.1f}"
        lines.append(
            f"{row.world:34}{row.slots:7}{row.judge:26}{100 * row.false_abort[0]:12.2f}{share['same']:7.1f}"
            f"{share['margin']:9.2f}{share['margin+1']:7.2f}{share['margin+2']:7.2f}{fail['margin']:8.2f}"
            f"{fail['margin+1']:7.1f}{fail['margin+2']:7.1f}{100 * row.undecided['same']:8.1f}"
            f"{row.minutes['same']:6.1f}{quick:>7}{'' if not row.powered else '  powered'}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cells asked for, print the table, write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="of each cell (default: 10,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--worlds", nargs="*", help="names; default: all")
    parser.add_argument("--slots", nargs="*", help="such as 12v4; default: all")
    parser.add_argument("--ours", action="store_true", help="leave the other rules out")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args(argv)
    cells = [
        (world, slots)
        for world in WORLDS
        for slots in SLOTS
        if (not arguments.worlds or world.name in arguments.worlds)
        and (not arguments.slots or f"{slots[0]}v{slots[1]}" in arguments.slots)
    ]
    begun = time.monotonic()
    warnings.simplefilter("ignore", RuntimeWarning)
    rules = () if arguments.ours else RULES
    with ProcessPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(cell, world, slots, arguments.runs, arguments.seed, rules) for world, slots in cells]
        rows = [row for each in waiting for row in each.result()]
    print(table(rows))
    print(f"{len(cells)} cells of {arguments.runs} runs in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    if arguments.json:
        settings = {"runs": arguments.runs, "seed": arguments.seed, "margin": MARGIN, "windows": WINDOWS}
        found = {"settings": settings, "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
