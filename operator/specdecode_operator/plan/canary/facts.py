"""What a plan wants to know that takes time, and what it was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.register import Asked
from specdecode_operator.gates.run import RunPlan


@dataclass(frozen=True)
class Register:
    """Whether a run can be registered, from the stable pods' history."""

    asked: Asked
    scrape: float
    """Seconds between two scrapes."""
    backend: str

    @property
    def id(self) -> str:
        """Another run, or other slots, is another question."""
        return f"register {self.asked.run} {self.asked.stable.pods}"


@dataclass(frozen=True)
class Look:
    """What a step's windows say so far."""

    run: str
    step: int
    through: int
    """Windows that have closed."""
    plan: Plan
    recorded: int
    """Windows of which samples are in the record already."""
    cohort: frozenset[str]
    """UIDs of the stable pods that are compared."""
    metrics: tuple[str, ...]
    histograms: tuple[str, ...]
    scrape: float
    backend: str
    samples: bytes = field(repr=False, compare=False)
    looks: bytes = field(repr=False, compare=False)

    @property
    def id(self) -> str:
        """Each window asks anew."""
        return f"look {self.run} {self.step} {self.through}"


Want = Register | Look


@dataclass(frozen=True)
class Unavailable:
    """There is no answer yet: the backend has nothing, or there is no backend."""

    kind: Literal["NoData", "BackendDown"]
    why: str


@dataclass(frozen=True)
class Refused:
    """No run can be registered."""

    reason: str
    words: str


@dataclass(frozen=True)
class Looked:
    """A look's answer, with all windows until then as the record keeps them."""

    run: str
    step: int
    through: int
    outcome: str
    reason: str
    sentence: str
    decided_at: int | None
    samples: bytes = field(repr=False)
    looks: bytes = field(repr=False)


Answer = Unavailable | Refused | RunPlan | Looked


@dataclass(frozen=True)
class Evidence:
    """The newest answer."""

    want: str
    """Id of what was wanted."""
    answer: Answer
