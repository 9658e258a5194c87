"""What telemetry costs a decode step: its sampled steps beside those between them, in one engine of this process.

    PYTHONPATH=<patched site folder>:tests python3 -m bench.gpu.overhead --method dspark --out OUT/overhead.json.gz
    PYTHONPATH=tests python3 -m bench.gpu.overhead --read OUT/overhead.json.gz

Two starts of an engine differ by a hundred times what telemetry may cost, and a host that is shared changes its speed
within a second.  So each step is compared with the steps around it, and the steps are folded by their turn in
telemetry's stride: what the turns of a sampled step take beyond the others is what sampling costs, spread over the
stride.  Only the sampled step and a few after it can pay, so the others are what a step takes without, and their noise
is not counted as cost.  What the hooks cost in the other steps, a look at a flag each, is in all turns alike and
`make bench-telemetry` shows it; the event at the start of each CUDA graph is in all steps too.
"""

import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench.gpu import arms, engine, models, raw, recording
from bench.gpu.engine import Setup
from bench.gpu.ratios import DRAWS, LEVEL
from bench.gpu.raw import FORMAT

TOKENS = 2048
"""Tokens of each answer: some 680 steps, 40 of them sampled."""

AROUND = 17
"""Steps around one, itself among them, whose median it is compared with."""

PAYING = 4
"""Turns that can pay: the sampled step, the one in which its events are read, and two that may still hear of them."""

TRIMMED = 0.1
"""Part of a turn's steps left out at either end: what a shared host does to a step in ten says nothing of telemetry."""


def relative(steps: Sequence[float]) -> np.ndarray:
    """Each step over the median of those around it; shape (steps - AROUND + 1,), the ends left out."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(steps), AROUND)
    return windows[:, AROUND // 2] / np.median(windows, axis=1)


def by_turn(requests: Sequence[Mapping[str, Any]], every: int) -> list[np.ndarray]:
    """Turn -> the relative times of all steps with that turn, of requests with a step that has others around it."""
    long = [request for request in requests if len(request["steps"]) >= AROUND]
    times = np.concatenate([relative(request["steps"]) for request in long])
    turns = np.concatenate([request["turns"][AROUND // 2 : -(AROUND // 2)] for request in long])
    return [times[turns == turn] for turn in range(every)]


def cost(of_turn: Sequence[np.ndarray]) -> float:
    """What the PAYING turns take beyond the others, as a part of what the whole stride would take without.

    A turn's value is its trimmed mean; the others' is that of all their steps.
    """
    base = others(of_turn)
    return math.fsum(_trimmed(times) / base - 1 for times in of_turn[:PAYING]) / len(of_turn)


def others(of_turn: Sequence[np.ndarray]) -> float:
    """What a step takes in which nothing is sampled, read or shipped."""
    return _trimmed(np.concatenate(of_turn[PAYING:]))


def _trimmed(times: np.ndarray) -> float:
    cut = int(TRIMMED * len(times))
    return float(np.sort(times)[cut : len(times) - cut].mean())


def interval(of_turn: Sequence[np.ndarray], seed: int = 1, draws: int = DRAWS // 10) -> tuple[float, float]:
    """95% percentile bootstrap interval of `cost`, over the steps of each turn."""
    rng = np.random.default_rng(seed)
    found = [cost([rng.choice(times, len(times)) for times in of_turn]) for _ in range(draws)]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def text(head: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> str:
    """What came of it: a sentence, and the turns that stand out."""
    of_turn = by_turn(requests, head["every"])
    steps = sum(map(len, of_turn))
    low, high = interval(of_turn)
    base = others(of_turn)
    step = statistics.median(step for request in requests for step in request["steps"])
    turns = ", ".join(f"{turn}: {1e2 * (_trimmed(times) / base - 1):+.2f}%" for turn, times in enumerate(of_turn))
    engine_was = f"vLLM {head['facts']['vllm']}, {head['method']}, {head['facts']['device']}"
    return (
        f"{engine_was}: sampling each {head['every']}th step costs {1e2 * cost(of_turn):.3f}% of a step, 95% interval "
        f"{1e2 * low:.3f}% to {1e2 * high:.3f}%, from {steps} steps of {1e3 * step:.3f} ms (median).\n"
        f"By turn, beside turns {PAYING} to {head['every'] - 1}: {turns}"
    )


def record(method: str, file: Path, seconds: float, seed: int = 1) -> None:
    """Ask for so long, the engine's start included, and keep each request's steps and their turns in `file`."""
    begun = time.monotonic()
    os.environ |= engine.ENVIRONMENT
    from specdecode_engine.telemetry import worker

    with tempfile.TemporaryDirectory() as folder:
        models.write(Path(folder), method)
        llm = engine.start(Setup(models=folder, method=method, seed=seed))
        file.unlink(missing_ok=True)
        asked = _asked(llm, worker.step, seed)
        next(asked)
        head = {"format": FORMAT, "overhead": "telemetry", "method": method, "every": worker.step.every}
        raw.add(file, head | {"facts": engine.facts()})
        for request in asked:
            raw.add(file, request)
            if time.monotonic() - begun > seconds:
                return


def _asked(llm: Any, of_worker: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Requests without end, one after the other: seconds of each decode step, and the turn at its end."""
    prefix = arms.prefix(seed)
    for at in range(sys.maxsize):
        prompt = {"prompt_token_ids": [*prefix, *arms.tokens(f"{seed}/overhead/{at}", arms.TAIL)]}
        llm.add_request(str(at), prompt, engine.greedy(TOKENS))
        stamps, turns = [], []
        while llm.has_unfinished_requests():
            if llm.step():
                stamps.append(time.perf_counter())
                turns.append(of_worker.turn)
        steps = [after - before for before, after in pairwise(stamps)]
        yield {"steps": engine.rounded(steps[engine.LED_IN :]), "turns": turns[1:][engine.LED_IN :]}


def main(argv: Sequence[str] | None = None) -> int:
    """Record and show, or show."""
    return recording.main(
        argv,
        prog="bench.gpu.overhead",
        about=__doc__.splitlines()[0],
        minutes=4.0,
        until="end within about so many",
        record=record,
        text=text,
    )


if __name__ == "__main__":
    sys.exit(main())
