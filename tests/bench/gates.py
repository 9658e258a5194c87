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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import numpy as np
from bench.rules import QUERIES, RULES, THRESHOLDS, Outcome, Rule, readings
from bench.worlds import WORLDS, Traces, World, plan_for, simulate

from specdecode_operator.gates.course import follow
from specdecode_operator.gates.decide import first_decision
from specdecode_operator.gates.estimate import Sides
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.power import Run, power

SLOTS = ((3, 1), (7, 1), (15, 1), (12, 4), (9, 9), (2, 2))
MARGIN = 0.02
WINDOWS = 80
DOUBLED = math.log(2)
TRUTHS = {"same": 0.0, "margin": MARGIN, "margin+1": MARGIN + 0.01, "margin+2": MARGIN + 0.02}
BATCH = 100
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


class Tally:
    """Outcomes of one judge as they come in: [thresholds, runs] for each truth."""

    def __init__(self) -> None:
        self.found: defaultdict[str, list[Outcome]] = defaultdict(list)

    def add(self, truth: str, outcome: Outcome, thresholds: int) -> None:
        self.found[truth].append(Outcome(*(each.reshape(thresholds, -1) for each in vars(outcome).values())))

    def all(self, what: str, truth: str) -> np.ndarray:
        return np.concatenate([getattr(outcome, what) for outcome in self.found[truth]], axis=1)

    def share(self, what: str, truth: str, place: int) -> float:
        return float(self.all(what, truth)[place].mean())

    def soon(self, place: int) -> float | None:
        """Of the runs with a doubled span, those stopped within three windows."""
        if "doubled" not in self.found:
            return None
        return float((self.all("aborted", "doubled") & (self.all("minutes", "doubled") <= 1.5))[place].mean())


def wilson(share: float, runs: int) -> tuple[float, float, float]:
    """A share with its 95% score interval (Wilson 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z / (1 + z * z / runs) * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    return share, max(0.0, centre - half), min(1.0, centre + half)


def ours(plan: Plan, traces: Traces, effect: float) -> Outcome:
    """The judge under test."""
    course = follow(plan, plan.gates[0], Sides.of(traces.stable), traces.trays, traces.with_effect(effect))
    decision = first_decision(course, traces.stable, np.ones(plan.windows.planned, bool))
    minutes = np.where(decision.at >= 0, decision.at + 1, plan.windows.planned) * plan.windows.seconds / 60
    return Outcome(decision.passed, decision.failed, minutes)


def cell(world: World, slots: tuple[int, int], runs: int, seed: int, rules: tuple[Rule, ...]) -> list[Row]:
    """All judges on one world and one split of the slots."""
    plan = plan_for(world, *slots, MARGIN, WINDOWS)
    name = f"{slots[0]}v{slots[1]}"
    rng = np.random.default_rng([seed, zlib.crc32(f"{world.name}/{name}".encode())])
    mine = Tally()
    theirs = {(rule.name, query): Tally() for rule in rules for query in QUERIES}
    limits = np.array(THRESHOLDS)[:, None, None]
    for size in _batches(runs):
        traces = simulate(world, plan, size, rng)
        read = readings(traces.cells.values, traces.cells.weights, traces.stable, traces.past) if rules else {}
        for truth, effect in (*TRUTHS.items(), ("doubled", DOUBLED)):
            mine.add(truth, ours(plan, traces, effect), 1)
            for rule, query in product(rules if truth in TRUTHS else (), QUERIES):
                high = ~(read[query, rule.worst_pod] + effect <= limits)
                theirs[rule.name, query].add(truth, rule.decide(high.reshape(-1, high.shape[-1])), len(THRESHOLDS))
    powered = power(Run(plan.gates[0].noise, MARGIN, *slots, WINDOWS, tracking=plan.gates[0].tracking)).passes
    about = (world.name, name, runs, powered)
    rows = [_row(about, "this one", None, mine, 0)]
    for rule in rules:
        past, ratio = (theirs[rule.name, query] for query in QUERIES)
        rows.append(_row(about, f"{rule.name}, past +2%", MARGIN, past, THRESHOLDS.index(MARGIN)))
        best = _best(ratio)
        rows.append(_row(about, f"{rule.name}, ratio, best", THRESHOLDS[best], ratio, best))
    return rows


def _batches(runs: int) -> Iterator[int]:
    for begun in range(0, runs, BATCH):
        yield min(BATCH, runs - begun)


def _best(tally: Tally) -> int:
    """The threshold that serves a rule best, which it could not know: chosen on these very runs."""
    badness = [
        max(tally.share("aborted", "same", place), tally.share("promoted", "margin+1", place))
        for place in range(len(THRESHOLDS))
    ]
    return int(np.argmin(badness))


def _row(about: tuple[str, str, int, bool], judge: str, threshold: float | None, tally: Tally, place: int) -> Row:
    world, slots, runs, powered = about
    passed = {truth: wilson(tally.share("promoted", truth, place), runs) for truth in TRUTHS}
    failed = {truth: wilson(tally.share("aborted", truth, place), runs) for truth in TRUTHS}
    doubled = tally.soon(place)
    return Row(
        world=world,
        slots=slots,
        judge=judge,
        threshold=threshold,
        runs=runs,
        powered=powered,
        false_abort=failed["same"],
        passed=passed,
        failed=failed,
        undecided={truth: 1 - passed[truth][0] - failed[truth][0] for truth in TRUTHS},
        minutes={truth: float(np.median(tally.all("minutes", truth)[place])) for truth in TRUTHS},
        doubled_in_three=None if doubled is None else wilson(doubled, runs),
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


def as_json(settings: dict[str, float], rows: Sequence[dict[str, object]]) -> str:
    """The table for machines, a row a line."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{{"settings": {json.dumps(settings)}, "rows": [\n{lines}\n]}}\n'


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
        arguments.json.write_text(as_json(settings, [asdict(row) for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
