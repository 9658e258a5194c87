"""What telemetry costs a decode step: on against off, request by request, within one engine of this process.

    PYTHONPATH=<patched site folder>:tests python3 -m bench.gpu.overhead --method dspark --out OUT/overhead.json.gz
    PYTHONPATH=tests python3 -m bench.gpu.overhead --read OUT/overhead.json.gz

Two starts of an engine differ by more than telemetry may cost.  So one engine serves both: the switch that it read at
its start is turned between requests, which leaves what `SPECDECODE_DISABLE=telemetry` leaves, but for the event at the
start of each CUDA graph.  That event is in both; its cost is in the campaign's own comparison of two engines.
"""

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.gpu import arms, engine, models, ratios, raw
from bench.gpu.engine import Setup
from bench.gpu.ratios import Ratio
from bench.gpu.raw import FORMAT

TOKENS = 1024
"""Tokens of each answer: some 340 steps, 20 of them sampled."""

WARM = 4
"""Requests of each kind that come first and are not counted."""


def order(seed: int) -> Iterator[bool]:
    """On or off, request by request, without end: pairs of both, each in a random order."""
    rng = random.Random(f"{seed}/overhead")
    while True:
        first = rng.random() < 0.5
        yield first
        yield not first


def cost(requests: Sequence[Mapping[str, Any]]) -> Ratio | None:
    """A step with telemetry over one without it, from requests in the order in which they were asked.

    Each pair gives one ln ratio of the requests' mean times of a step; the mean, because each so many steps pay.  A
    last request without its other half is left out.
    """
    pairs = [
        pair
        for pair in zip(requests[::2], requests[1::2], strict=False)
        if {request["on"] for request in pair} == {True, False}
    ]
    return ratios.ratio({0: [_log(pair, True) - _log(pair, False) for pair in pairs]})


def _log(pair: Sequence[Mapping[str, Any]], on: bool) -> float:
    return math.log(next(statistics.fmean(request["steps"]) for request in pair if request["on"] == on))


def text(head: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> str:
    """A sentence with what came of it."""
    found = cost(requests)
    if found is None or found.interval is None:
        return f"{len(requests)} requests are too few to compare."
    low, high = found.interval
    off = statistics.median(statistics.fmean(request["steps"]) for request in requests if not request["on"])
    return (
        f"vLLM {head['facts']['vllm']}, {head['method']}, {head['facts']['device']}: a step takes {1e3 * off:.3f} ms "
        f"without telemetry, and with it {found.ratio:.5f} times as long, 95% interval {low:.5f} to {high:.5f}, "
        f"from {found.sweeps} pairs of requests."
    )


def record(method: str, file: Path, seconds: float, seed: int = 1) -> None:
    """Ask for so long, the engine's start included, and keep each request's steps in `file`."""
    begun = time.monotonic()
    os.environ |= engine.ENVIRONMENT
    from specdecode_engine.telemetry import worker

    with tempfile.TemporaryDirectory() as folder:
        models.write(Path(folder), method)
        llm = engine.start(Setup(models=folder, method=method, seed=seed))
        client = engine.Client(llm, engine.Spans(engine.runner_of(llm)), seed=seed)
        file.unlink(missing_ok=True)
        raw.add(file, {"format": FORMAT, "overhead": "telemetry", "method": method, "facts": engine.facts()})
        for asked, on in enumerate(order(seed)):
            if time.monotonic() - begun > seconds:
                return
            worker.ENABLED = on
            request = client.ask(arms.tokens(f"{seed}/overhead/{asked}", arms.TAIL), TOKENS)
            if asked >= 2 * WARM:
                raw.add(file, {"on": on, "steps": request.steps[engine.LED_IN :]})


def main(argv: Sequence[str] | None = None) -> int:
    """Record and show, or show."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=sorted(arms.DRAFTED))
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the raw file (.json.gz)")
    parser.add_argument("--minutes", type=float, default=4.0, help="end within about so many (default 4)")
    parser.add_argument("--read", type=Path, metavar="FILE", help="show this raw file instead")
    args = parser.parse_args(argv)
    if not args.read and not (args.method and args.out):
        parser.error("needed: --method and --out, or --read")
    if not args.read:
        record(args.method, args.out, 60 * args.minutes)
    head, *requests = raw.lines(args.read or args.out)
    print(text(head, requests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
