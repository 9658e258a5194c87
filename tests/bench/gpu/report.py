"""Pure: raw files -> what each arm took, and what each comparison shows, as Markdown tables."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.gpu import arms, ratios
from bench.gpu.arms import Comparison
from bench.gpu.ratios import Ratio
from bench.gpu.raw import Round

Requests = Sequence[Mapping[str, Any]]
"""Of one visit: `engine.Asked`, as read from a raw file."""


@dataclass(frozen=True)
class Metric:
    """A column: one value a visit, from its bare or its timed requests."""

    title: str
    digits: int
    of: str
    """The span of a timed request; else `cached`, `first`, `rate` or `step` of a bare one."""
    compared: bool = True
    """A ratio makes sense of it."""
    key: str | None = None
    """Its name for machines, if it has one."""


METRICS = (
    Metric("cached tokens", 0, "cached", compared=False, key="cached_tokens"),
    Metric("hit TTFT ms", 2, "first", key="hit_ttft_ms"),
    Metric("decode tok/s", 1, "rate", key="decode_tok_s"),
    Metric("step ms", 3, "step"),
    Metric("input prep host ms", 3, "input_prep_host"),
    Metric("propose host ms", 3, "propose_host", key="propose_host_ms"),
    Metric("propose GPU ms", 3, "propose_gpu"),
    Metric("drafter GPU ms", 3, "drafter_gpu", key="drafter_gpu_ms"),
)

INPUT_PREP = ("prepare_inputs_host", "prepare_attn_host")
"""The two calls that input preparation consists of, one after the other in each step."""


def value(requests: Requests, metric: Metric) -> float | None:
    """The metric of one visit: the median over its requests of each one's mean over steps; None without a sample.

    The mean, because what telemetry does in each so many steps has to count; the median, because a hiccup must not.
    """
    found = [each for request in requests if (each := _of_request(request, metric.of)) is not None]
    return statistics.median(found) if found else None


def _of_request(request: Mapping[str, Any], of: str) -> float | None:
    spans = request["spans"]
    if of in ("cached", "first", "rate", "step"):
        return None if spans else _bare(request, of)
    if of == "input_prep_host":
        parts = [_mean_ms(spans.get(name, ())) for name in INPUT_PREP]
        return None if None in parts else math.fsum(part for part in parts if part is not None)
    return _mean_ms(spans.get(of, ()))


def _bare(request: Mapping[str, Any], of: str) -> float | None:
    match of:
        case "cached":
            return float(request["cached"])
        case "first":
            return 1e3 * float(request["first"])
        case "rate":
            return sum(request["emitted"]) / math.fsum(request["steps"])
        case _:
            return _mean_ms(request["steps"])


def _mean_ms(seconds: Sequence[float]) -> float | None:
    return 1e3 * statistics.fmean(seconds) if seconds else None


Values = Mapping[tuple[int, int, int, str], float]
"""(file, sweep, leg, arm) -> the metric of that visit.  Each file is a start of the engines of its own."""


def values(rounds: Iterable[Round], metric: Metric) -> Values:
    """The metric of every visit that has it."""
    return {
        (file, at["sweep"], at["leg"], at["arm"]): found
        for file, each in enumerate(rounds)
        for visit in each.visits
        if (at := visit["visit"]) and (found := value(visit["requests"], metric)) is not None
    }


def compared(of: Values, comparison: Comparison) -> Ratio | None:
    """The ratio of two arms over the sweeps in which both were visited on both legs."""
    logs: defaultdict[int, list[float]] = defaultdict(list)
    for file, sweep in sorted({key[:2] for key in of}):
        ours, theirs = (
            [of.get((file, sweep, leg, arm)) for leg in (0, 1)] for arm in (comparison.arm, comparison.against)
        )
        if all(ours) and all(theirs):
            logs[file].append(_log_ratio([v for v in ours if v], [v for v in theirs if v]))
    return ratios.ratio(logs)


def _log_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.fmean(map(math.log, ours)) - statistics.fmean(map(math.log, theirs))


def report(rounds: Sequence[Round]) -> str:
    """Two tables for each line and method: the arms, and the comparisons."""
    return "\n".join(line for (line_of, method), of in _campaigns(rounds) for line in _campaign(line_of, method, of))


def rows(rounds: Sequence[Round]) -> list[dict[str, Any]]:
    """For machines: each arm of each line and method, medians over its visits; `run` is when its rounds began."""
    return [
        {"line": line, "drafter": method, "arm": name, **_medians(name, of), "run": _begun(of)}
        for (line, method), of in _campaigns(rounds)
        for name in _names(of)
    ]


def _medians(arm: str, rounds: Sequence[Round]) -> dict[str, float | None]:
    """Key -> the arm's median; None without a visit that has it."""
    found = {each: _of_arm(arm, values(rounds, each)) for each in METRICS if each.key}
    return {
        each.key: round(statistics.median(of), each.digits) if of else None for each, of in found.items() if each.key
    }


def _begun(rounds: Iterable[Round]) -> str:
    return ", ".join(each.head["begun"] for each in rounds)


def _campaigns(rounds: Iterable[Round]) -> list[tuple[tuple[str, str], list[Round]]]:
    """(line, method) -> its rounds, in that order."""
    found: defaultdict[tuple[str, str], list[Round]] = defaultdict(list)
    for each in rounds:
        found[each.head["line"], each.head["method"]].append(each)
    return sorted(found.items())


def _names(rounds: Iterable[Round]) -> list[str]:
    return list(dict.fromkeys(name for each in rounds for name in each.ready))


def _of_arm(arm: str, of: Values) -> list[float]:
    return [value for key, value in of.items() if key[3] == arm]


def _campaign(line: str, method: str, rounds: Sequence[Round]) -> Iterator[str]:
    names = _names(rounds)
    of = {metric: values(rounds, metric) for metric in METRICS}
    device = ", ".join(sorted({ready["facts"]["device"] for each in rounds for ready in each.ready.values()}))
    digests = ", ".join(sorted({f"`{each.head['trees']['manifest_digest'][:12]}`" for each in rounds}))
    yield f"### vLLM {line}, {method}, K={arms.DRAFTED[method]}"
    yield ""
    yield f"On one {device or 'device'}; starts of every engine: {len(rounds)}; manifest {digests}."
    yield ""
    yield from table(["engine", "visits", *(metric.title for metric in METRICS)], [_arm(name, of) for name in names])
    yield ""
    shown = [metric for metric in METRICS if metric.compared]
    rows = [_comparison(each, {metric: of[metric] for metric in shown}) for each in arms.comparisons(names)]
    yield from table(["ratio", "over", "sweeps", *(metric.title.removesuffix(" ms") for metric in shown)], rows)
    yield ""
    for each in rounds:
        for name, said in each.failed.items():
            yield f"Round {each.head['round']}: {name} failed: {(said.splitlines() or ['it said nothing'])[-1]}"


def _arm(name: str, of: Mapping[Metric, Values]) -> list[str]:
    """An arm's row: medians over its visits."""
    mine = {metric: _of_arm(name, each) for metric, each in of.items()}
    cells = [f"{statistics.median(found):.{metric.digits}f}" if found else "-" for metric, found in mine.items()]
    return [name, str(max(map(len, mine.values()))), *cells]


def _comparison(comparison: Comparison, of: Mapping[Metric, Values]) -> list[str]:
    found = [compared(each, comparison) for each in of.values()]
    sweeps = max((each.sweeps for each in found if each), default=0)
    return [comparison.shows, f"{comparison.arm} / {comparison.against}", str(sweeps), *map(_cell, found)]


def _cell(found: Ratio | None) -> str:
    if found is None:
        return "-"
    if found.interval is None:
        return f"{found.ratio:.4f}"
    return f"{found.ratio:.4f} [{found.interval[0]:.4f}, {found.interval[1]:.4f}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"
