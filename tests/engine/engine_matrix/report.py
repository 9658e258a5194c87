"""Pure: what has to hold between an engine and stock's, and the table that shows it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine_matrix.variants import Variant
from engine_matrix.workload import HIT, UNCACHED, Result

TAIL = "prefix-cache-tail"
TELEMETRY = "telemetry"
EQUAL, DIFFER = "equal", "differ"


@dataclass(frozen=True)
class Run:
    """One engine of the matrix."""

    line: str
    target: str
    drafter: str
    variant: Variant
    result: Result

    @property
    def pair(self) -> tuple[str, str, str]:
        return self.line, self.target, self.drafter

    @property
    def title(self) -> str:
        return f"{self.line} {self.target}+{self.drafter} {self.variant.name}"


def failures(runs: Sequence[Run], carried: Mapping[str, Sequence[str]]) -> list[str]:
    """Every expectation that did not hold, one sentence each."""
    stock = {run.pair: run.result for run in runs if run.variant.name == "stock"}
    return [said for run in runs for said in _failures(run, stock[run.pair], carried[run.line])]


def _failures(run: Run, stock: Result, carried: Sequence[str]) -> Iterator[str]:
    result = run.result
    if (said := tokens_against(stock, result)).startswith(DIFFER):
        yield f"{run.title}: tokens {said}"
    gained = [ours - theirs for ours, theirs in zip(result.cached, stock.cached, strict=True)]
    hit = [count > 0 or more > 0 for count, more in zip(stock.cached, gained, strict=True)]
    if TAIL in carried and run.variant.acts(TAIL, carried):
        if not any(more > 0 for more in gained) or any(more < 0 for more in gained):
            yield f"{run.title}: cached tokens {result.cached}, expected more than stock's {stock.cached} on a hit"
    elif any(gained):
        yield f"{run.title}: cached tokens {result.cached}, expected stock's {stock.cached}"
    if TAIL not in carried and not any(hit):
        yield f"{run.title}: no request hit the cache, so nothing was shown"
    if result.ours and result.ours != result.own:
        yield f"{run.title}: our counters {result.ours}, the engine's own {result.own}"
    yield from _states(run, carried)
    yield from _spans(run)


def _states(run: Run, carried: Sequence[str]) -> Iterator[str]:
    for name, state in run.result.states.items():
        expected = "disabled" if name in run.variant.disabled else "active" if name in run.variant.patches else "absent"
        if name not in carried:
            expected = "upstream"
        if state != expected:
            yield f"{run.title}: {name} is {state}, expected {expected}"


def _spans(run: Run) -> Iterator[str]:
    counted = {span for span, (count, _) in run.result.spans.items() if count}
    if run.variant.acts(TELEMETRY, [TELEMETRY]):
        wanted = {"propose_host", "drafter_gpu", "propose_gpu", "draft_rebuild_host", "input_prep_host"}
        if missing := sorted((wanted | {"target_forward_gpu", "probe_host", "probe_device"}) - counted):
            yield f"{run.title}: no sample of {', '.join(missing)}"
    elif counted:
        yield f"{run.title}: samples of {', '.join(sorted(counted))} without telemetry"


def tokens_against(stock: Result, result: Result) -> str:
    """How the answers compare with stock's.

    An answer from a longer cached prefix is computed in other chunks and may round differently, and after a hit 0.30.0
    goes on from another block's Mamba state (vllm#55600).  So where stock answers otherwise without its cache, the
    answer to the hit is left out if the hit is another, or if it is the engine's own without its cache.
    """
    noisy = stock.tokens[HIT] != stock.tokens[UNCACHED] and (
        stock.cached[HIT] != result.cached[HIT] or result.tokens[HIT] == result.tokens[UNCACHED]
    )
    kept = [at for at in range(len(stock.tokens)) if not (noisy and at == HIT)]
    said = first_difference([stock.tokens[at] for at in kept], [result.tokens[at] for at in kept])
    return f"{said} but for the hit, as stock's own without its cache" if noisy and said == EQUAL else said


def first_difference(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> str:
    """Where two answers part."""
    for prompt, (left, right) in enumerate(zip(one, other, strict=True)):
        for at, (a, b) in enumerate(zip(left, right, strict=False)):
            if a != b:
                return f"{DIFFER} in prompt {prompt} from token {at}: {a} and {b}"
        if len(left) != len(right):
            return f"{DIFFER} in prompt {prompt}: {len(left)} and {len(right)} tokens"
    return EQUAL


COLUMNS = ("line", "models", "engine", "tokens each", "against stock's", "cached", "acceptance", "own = ours")
KEY = 3
"""So many of its first cells say which engine a row is of."""


def table(runs: Sequence[Run]) -> str:
    """One row an engine, in Markdown."""
    return _markdown(_rows(runs))


def kept(page: str, runs: Sequence[Run]) -> str:
    """The page with these runs in its table: a row of the same engine is replaced, the others stay; those of the same
    line and models are beside each other."""
    lines = page.splitlines()
    old = [at for at, line in enumerate(lines) if line.startswith("|")]
    first, last = (old[0], old[-1] + 1) if old else (len(lines), len(lines))
    rows = {tuple(row[:KEY]): row for row in [*map(_cells, lines[first + 2 : last]), *_rows(runs)]}
    beside = sorted(rows.values(), key=lambda row: row[: KEY - 1])
    return "\n".join([*lines[:first], _markdown(beside).rstrip(), *lines[last:], ""])


def _rows(runs: Sequence[Run]) -> Iterator[list[str]]:
    stock: dict[tuple[str, str, str], Result] = {}
    for run in runs:
        result = run.result
        compared = stock.setdefault(run.pair, result)
        yield [
            run.line,
            f"{run.target} + {run.drafter}",
            run.variant.name,
            " ".join(sorted({str(len(answer)) for answer in result.tokens})),
            tokens_against(compared, result),
            " ".join(map(str, result.cached)),
            acceptance(result.own),
            "-" if not result.ours else "yes" if result.ours == result.own else "NO",
        ]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows)) + "\n"


def acceptance(own: Mapping[str, float]) -> str:
    """Mean length, and the accepted share at each position."""
    drafts = own.get("drafts", 0)
    if not drafts:
        return "-"
    shares = [own[name] / drafts for name in sorted(own) if name.startswith("accepted ")]
    return f"{1 + sum(shares):.2f} ({' '.join(f'{share:.2f}' for share in shares)}; {drafts:g} drafts)"
