"""Finds out what a plan wants to know, beside the reconciles: samples over the network, statistics in a process.

A reconcile says what it wants and goes on; the answer wakes it later. Nothing here decides anything, and nothing here
is remembered across a restart: what counts is in the run's record, and what isn't is found out again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, Literal, Protocol, TypeVar

from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key
from specdecode_operator.gates.look import look
from specdecode_operator.gates.register import HISTORY_WINDOWS, Unfit, register
from specdecode_operator.gates.run import RunPlan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.told import only_told
from specdecode_operator.plan.canary.facts import Answer, Evidence, Look, Looked, Refused, Register, Unavailable, Want

logger = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Objects whose samples are read at the same time."""
AGAIN: Final = 15.0
"""Seconds until missing metrics are asked for again."""
RECONSIDER: Final = 300.0
"""Seconds until a run that was refused is tried again."""
STATISTICS_SECONDS: Final = 300.0
"""A calculation that takes longer is given up, and its process with it."""
SCRAPES_LATE: Final = 2

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """Samples that are wanted: of which pods, metrics and windows."""

    namespace: str
    name: str
    backend: str
    revisions: tuple[str, ...]
    start: float
    """Of the first window, in seconds since the epoch."""
    seconds: float
    """Length of a window."""
    windows: int
    scrape: float
    metrics: tuple[str, ...]
    histograms: tuple[str, ...]
    """Metrics of which the buckets are wanted too."""


class Missing(Exception):
    """There are no samples. The text is for people."""

    def __init__(self, kind: Literal["NoData", "BackendDown"], why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Source(Protocol):
    """Where samples come from."""

    async def __call__(self, question: Question, /) -> Sequence[Sample]:
        """The samples; raises Missing. Bounded in time by itself."""


class Statistics:
    """One process for what takes long: a reconcile must not wait for it, nor a health probe."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call it there. Raises what it raises, TimeoutError, BrokenProcessPool."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"))
        try:
            async with asyncio.timeout(STATISTICS_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        except (TimeoutError, BrokenProcessPool):
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = None


@dataclass
class _Asked:
    """What one object wants to know."""

    want: Want
    task: asyncio.Task[None] | None = None
    evidence: Evidence | None = None
    answered: float = 0.0
    """When, on the monotonic clock."""


class Canaries:
    """Keeps the newest answer for each object."""

    def __init__(
        self,
        source: Source,
        notify: Callable[[Key], None],
        meters: Meters,
        *,
        clock: Callable[[], float] = time.time,
        statistics: Statistics | None = None,
    ) -> None:
        self._source = source
        self._notify = notify
        self._meters = meters
        self._clock = clock
        self._statistics = statistics or Statistics()
        self._asked: dict[Key, _Asked] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def evidence(self, key: Key) -> Evidence | None:
        """What was found out last for the object."""
        asked = self._asked.get(key)
        return asked.evidence if asked is not None else None

    def want(self, key: Key, want: Want | None) -> None:
        """Find it out, unless that is being done or was just done. Of a run's looks one at a time: a new window must
        not keep the last one from ever being answered."""
        before = self._asked.get(key)
        if want is None:
            if before is not None:
                self._stop(before)
            return
        if before is not None and before.task is not None:
            if _same_matter(before.want, want):
                return
            self._stop(before)
        if before is not None and before.want.id == want.id and not _due(before):
            return
        asked = _Asked(want, evidence=before.evidence if before else None)
        self._asked[key] = asked
        asked.task = asyncio.create_task(self._find_out(key, asked), name=f"{want.id} of {key}")

    def forget(self, key: Key) -> None:
        """The object is gone."""
        asked = self._asked.pop(key, None)
        if asked is not None:
            self._stop(asked)

    async def close(self) -> None:
        """Stop all of it."""
        tasks = [asked.task for asked in self._asked.values() if asked.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._statistics.close()

    def _stop(self, asked: _Asked) -> None:
        if asked.task is not None:
            asked.task.cancel()
            asked.task = None

    async def _find_out(self, key: Key, asked: _Asked) -> None:
        answer = await self._answer(key, asked.want)
        kind = answer.kind if isinstance(answer, Unavailable) else type(answer).__name__
        self._meters.canary_answers.labels(asked.want.id.split()[0], kind).inc()
        asked.evidence, asked.answered, asked.task = Evidence(asked.want.id, answer), time.monotonic(), None
        self._notify(key)

    async def _answer(self, key: Key, want: Want) -> Answer:
        try:
            async with self._slots:
                if isinstance(want, Register):
                    return await self._register(key, want)
                return await self._look(key, want)
        except Missing as error:
            return Unavailable(error.kind, str(error))
        except Unfit as error:
            return Refused(error.reason, str(error))
        except Exception as error:
            logger.exception("%s of %s failed", want.id, key)
            return Unavailable("BackendDown", f"the judge failed ({type(error).__name__}); the operator's log has more")

    async def _register(self, key: Key, want: Register) -> RunPlan:
        now = self._clock()
        seconds = want.asked.window
        end = (now - SCRAPES_LATE * want.scrape) // seconds * seconds
        start = end - HISTORY_WINDOWS * seconds
        question = Question(
            namespace=key.namespace,
            name=key.name,
            backend=want.backend,
            revisions=(want.asked.stable.revision,),
            start=start,
            seconds=seconds,
            windows=HISTORY_WINDOWS,
            scrape=want.scrape,
            metrics=want.asked.metrics,
            histograms=want.asked.histograms,
        )
        return await self._statistics.run(_register, want, tuple(await self._source(question)), start, now)

    async def _look(self, key: Key, want: Look) -> Looked:
        windows = want.plan.windows
        question = Question(
            namespace=key.namespace,
            name=key.name,
            backend=want.backend,
            revisions=(want.plan.stable.revision, want.plan.candidate.revision),
            start=windows.start + want.recorded * windows.seconds,
            seconds=windows.seconds,
            windows=want.through - want.recorded,
            scrape=want.scrape,
            metrics=want.metrics,
            histograms=want.histograms,
        )
        new = tuple(await self._source(question))
        if new and all(only_told(want.plan, each) for each in new):
            raise Missing("NoData", f"backend {want.backend or 'unnamed'} has nothing that a gate reads")
        return await self._statistics.run(_look, want, new)


def _same_matter(one: Want, other: Want) -> bool:
    """Whether they are looks at the same step, or the same question."""
    if isinstance(one, Look) and isinstance(other, Look):
        return (one.run, one.step) == (other.run, other.step)
    return one.id == other.id


def _due(asked: _Asked) -> bool:
    """Whether an answer may be another by now."""
    if asked.evidence is None or asked.evidence.want != asked.want.id:
        return True
    age = time.monotonic() - asked.answered
    if isinstance(asked.evidence.answer, Unavailable):
        return age >= AGAIN
    return isinstance(asked.evidence.answer, Refused) and age >= RECONSIDER


def _register(want: Register, history: Sequence[Sample], start: float, at: float) -> RunPlan:
    return register(want.asked, history, start=start, at=at)


def _look(want: Look, new: Sequence[Sample]) -> Looked:
    found = look(want.plan, new, through=want.through, cohort=want.cohort, samples=want.samples, looks=want.looks)
    return Looked(
        run=want.run,
        step=want.step,
        through=want.through,
        outcome=found.verdict.outcome.value,
        reason=found.verdict.reason.value,
        sentence=found.verdict.sentence,
        decided_at=found.verdict.decided_at,
        samples=found.samples,
        looks=found.looks,
    )
