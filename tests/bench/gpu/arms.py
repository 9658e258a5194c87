"""Pure: which engines are compared, who is visited when, and what each visit asks."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

DRAFTED = {"dspark": 3, "dflash": 2}
"""Method -> drafted tokens a step."""

ACCEPTANCE = 3.0
"""Forced acceptance length: tokens a step, on average."""

PREFIX = 32 * 1024
"""Tokens that every prompt begins with."""

TAIL = 2 * 1024
"""Tokens that no two prompts of an engine share."""

TOKENS = 256
"""Tokens of each answer."""

SETTLING = 32
"""Tokens of the answer that begins a visit and is not counted: caches and clocks are the engine's own again."""

BARE, TIMED = 3, 1
"""Requests of a visit.  The bare ones give what a client sees, undisturbed; the timed ones the spans within a step."""

MASK = 31_999
"""The drafters' mask token, the last of the vocabulary: in no prompt."""

NEVER_DRAFTS = frozenset({"mtp-fused-metadata"})
"""Optimizations of drafters that run step by step: neither method gets there."""

Tree = Literal["stock", "patched"]


@dataclass(frozen=True)
class Arm:
    """One engine: a tree, and what is switched off in it."""

    name: str
    tree: Tree
    disabled: tuple[str, ...] = ()


STOCK, AGAIN, SERIES, NOTHING = "stock", "stock again", "series", "all off"


def less(optimization: str) -> str:
    """Name of the arm that has all the others."""
    return f"less {optimization}"


def alone(optimization: str) -> str:
    """Name of the arm that has none of the others."""
    return f"{optimization} alone"


def arms(switchable: Sequence[str], *, each_alone: bool = False) -> list[Arm]:
    """Stock twice, the series, the series less one of `switchable` each; with `each_alone`, none and each by itself."""
    named = [name for name in switchable if name not in NEVER_DRAFTS]
    found = [
        Arm(STOCK, "stock"),
        Arm(AGAIN, "stock"),
        Arm(SERIES, "patched"),
        *(Arm(less(name), "patched", (name,)) for name in named),
    ]
    if each_alone:
        everything = tuple(switchable)
        found.append(Arm(NOTHING, "patched", everything))
        others = {name: tuple(other for other in everything if other != name) for name in named}
        found.extend(Arm(alone(name), "patched", others[name]) for name in named)
    return found


@dataclass(frozen=True)
class Comparison:
    """What the ratio of two arms shows."""

    shows: str
    arm: str
    against: str


def comparisons(names: Sequence[str]) -> list[Comparison]:
    """Every comparison for which both arms are there."""
    switched = [name.removeprefix("less ") for name in names if name.startswith("less ")]
    wanted = [
        Comparison("stock against itself", AGAIN, STOCK),
        Comparison("series", SERIES, STOCK),
        Comparison("series, all switched off", NOTHING, STOCK),
        *(Comparison(f"{name}, added last", SERIES, less(name)) for name in switched),
        *(Comparison(f"{name}, alone", alone(name), NOTHING) for name in switched),
    ]
    return [each for each in wanted if {each.arm, each.against} <= set(names)]


@dataclass(frozen=True)
class Visit:
    """A few requests in a row to one arm."""

    round: int
    """Which start of the engines."""
    sweep: int
    leg: int
    """0 on the way out, 1 on the way back."""
    arm: str


def visits(names: Sequence[str], *, seed: int, round: int) -> Iterator[Visit]:
    """Sweeps without end: all arms in a random order, then back in the reverse.  None without arms.

    Two legs of opposite order have the same mean time for every arm, so a linear drift of the machine cancels in the
    ratio of any two arms over one sweep.
    """
    for sweep in itertools.count() if names else ():
        order = random.Random(f"{seed}/{round}/{sweep}").sample(list(names), len(names))
        yield from (Visit(round, sweep, 0, name) for name in order)
        yield from (Visit(round, sweep, 1, name) for name in reversed(order))


def prefix(seed: int) -> list[int]:
    """The tokens that every prompt of a campaign begins with."""
    return tokens(f"{seed}/prefix", PREFIX)


def tail(seed: int, visit: Visit, request: int) -> list[int]:
    """The rest of a prompt: the same for every arm, so that arms differ in nothing else."""
    return tokens(f"{seed}/{visit.round}/{visit.sweep}/{visit.leg}/{request}", TAIL)


def tokens(key: str, count: int) -> list[int]:
    """Random tokens below MASK, the same for the same key."""
    return random.Random(key).choices(range(MASK), k=count)
