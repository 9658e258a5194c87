"""What a plan wants to know is found out beside the reconciles: asked once, answered once, and never waited for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from canaries import registering
from judged import LENGTH, SECONDS, START, World, altered, make_plan

from specdecode_operator.apply import canary
from specdecode_operator.apply.canary import Canaries, Missing, Question, Statistics
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key
from specdecode_operator.gates.register import HISTORY_WINDOWS
from specdecode_operator.gates.run import RunPlan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.plan.canary.facts import Look, Looked, Refused, Unavailable

T = TypeVar("T")
KEY = Key("team", "chat")
NOW = START + SECONDS * HISTORY_WINDOWS + 20


class Here(Statistics):
    """In this process: a test needs no other."""

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)


class Backend:
    """Gives samples when it is let, or says why not."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.missing: Missing | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.give: Callable[[Question], Sequence[Sample]] = lambda _: ()

    async def __call__(self, question: Question) -> Sequence[Sample]:
        self.asked.append(question)
        await self.open.wait()
        if self.missing is not None:
            raise self.missing
        return self.give(question)


class Told:
    """Whom the answers wake."""

    def __init__(self) -> None:
        self.keys: asyncio.Queue[Key] = asyncio.Queue()

    def __call__(self, key: Key) -> None:
        self.keys.put_nowait(key)

    async def once(self) -> Key:
        async with asyncio.timeout(60):
            return await self.keys.get()


def canaries(backend: Backend, told: Told) -> Canaries:
    return Canaries(backend, told, Meters(), clock=lambda: NOW, statistics=Here())


def looking(through: int = 12, recorded: int = 0) -> Look:
    plan = make_plan()
    cohort = frozenset(f"uid-s{place}" for place in range(12))
    return Look(
        run="r", step=0, through=through, plan=plan, recorded=recorded, cohort=cohort, metrics=("m",), histograms=(),
        scrape=10.0, backend="main", samples=b"", looks=b"",
    )  # fmt: skip


def history(question: Question) -> list[Sample]:
    plan = make_plan(16, 1, windows={"start": START, "seconds": SECONDS, "planned": HISTORY_WINDOWS})
    later = question.start - START
    return [
        altered(each, window_start=each.window_start + later, window_end=each.window_end + later)
        for each in World().samples(plan)
        if each.revision == "old"
    ]


async def test_a_run_is_registered_from_the_stable_pods_history() -> None:
    backend, told = Backend(), Told()
    backend.give = history
    asked = canaries(backend, told)
    asked.want(KEY, registering())
    assert await told.once() == KEY
    found = asked.evidence(KEY)
    assert found is not None
    assert found.want == registering().id
    assert isinstance(found.answer, RunPlan)
    assert backend.asked[0].revisions == ("old",)
    assert backend.asked[0].windows == HISTORY_WINDOWS
    end = backend.asked[0].start + backend.asked[0].windows * SECONDS
    assert end <= NOW - 20, "a window is read before its last scrape must have come"


async def test_a_history_that_is_too_thin_is_refused_in_words() -> None:
    backend, told = Backend(), Told()
    backend.give = lambda question: history(question)[:100]
    asked = canaries(backend, told)
    asked.want(KEY, registering())
    await told.once()
    found = asked.evidence(KEY)
    assert found is not None
    assert isinstance(found.answer, Refused)
    assert found.answer.reason == "Underpowered"


async def test_a_look_reads_the_windows_that_are_new_and_no_others() -> None:
    backend, told = Backend(), Told()
    backend.give = lambda _: World().samples(make_plan(), 12)
    asked = canaries(backend, told)
    asked.want(KEY, looking(through=12, recorded=9))
    await told.once()
    assert (backend.asked[0].start, backend.asked[0].windows) == (START + 9 * SECONDS, 3)
    found = asked.evidence(KEY)
    assert found is not None
    assert isinstance(found.answer, Looked)
    assert found.answer.through == 12


@pytest.mark.parametrize("kind", ["NoData", "BackendDown"])
async def test_missing_samples_are_an_answer_and_are_asked_for_again_later(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, told = Backend(), Told()
    backend.missing = Missing(kind, "nobody is there")
    asked = canaries(backend, told)
    asked.want(KEY, looking())
    await told.once()
    found = asked.evidence(KEY)
    assert found is not None
    assert found.answer == Unavailable(kind, "nobody is there")
    asked.want(KEY, looking())
    assert len(backend.asked) == 1
    monkeypatch.setattr(canary, "AGAIN", 0.0)
    asked.want(KEY, looking())
    await told.once()
    assert len(backend.asked) == 2


async def test_samples_that_no_gate_reads_are_no_data() -> None:
    backend, told = Backend(), Told()
    backend.give = lambda _: [each for each in World().samples(make_plan(), 12) if each.metric == LENGTH]
    asked = canaries(backend, told)
    asked.want(KEY, looking())
    await told.once()
    found = asked.evidence(KEY)
    assert found is not None
    assert found.answer == Unavailable("NoData", "backend main has nothing that a gate reads")


async def test_a_slow_answer_is_not_thrown_away_because_the_next_window_closed() -> None:
    backend, told = Backend(), Told()
    backend.give = lambda _: World().samples(make_plan(), 12)
    backend.open.clear()
    asked = canaries(backend, told)
    asked.want(KEY, looking(through=12))
    await asyncio.sleep(0)
    asked.want(KEY, looking(through=13))
    backend.open.set()
    await told.once()
    assert len(backend.asked) == 1
    found = asked.evidence(KEY)
    assert found is not None
    assert found.want == looking(through=12).id


async def test_another_question_takes_the_place_of_one_that_is_still_open() -> None:
    backend, told = Backend(), Told()
    backend.open.clear()
    asked = canaries(backend, told)
    asked.want(KEY, registering())
    await asyncio.sleep(0)
    backend.give = lambda _: World().samples(make_plan(), 12)
    asked.want(KEY, looking())
    backend.open.set()
    await told.once()
    found = asked.evidence(KEY)
    assert found is not None
    assert found.want == looking().id


async def test_two_canaries_of_one_namespace_get_each_their_own_answer() -> None:
    backend, told, other = Backend(), Told(), Key("team", "code")
    backend.give = lambda asked: history(asked) if asked.name == "chat" else ()
    answers = canaries(backend, told)
    answers.want(KEY, registering())
    answers.want(other, registering())
    assert {await told.once(), await told.once()} == {KEY, other}
    assert sorted(question.name for question in backend.asked) == ["chat", "code"]
    found = [answers.evidence(key) for key in (KEY, other)]
    assert [type(each.answer) if each else None for each in found] == [RunPlan, Refused]
    answers.forget(other)
    assert answers.evidence(KEY) is found[0]


async def test_nothing_is_asked_any_more_once_nothing_is_wanted() -> None:
    backend, told = Backend(), Told()
    backend.open.clear()
    asked = canaries(backend, told)
    asked.want(KEY, registering())
    await asyncio.sleep(0)
    asked.want(KEY, None)
    asked.forget(KEY)
    assert asked.evidence(KEY) is None
    await asked.close()


async def test_a_judge_that_breaks_holds_the_run_and_says_so() -> None:
    backend, told = Backend(), Told()
    asked = canaries(backend, told)
    asked.want(KEY, replace(looking(), samples=b"no gzip"))
    await told.once()
    found = asked.evidence(KEY)
    assert found is not None
    assert isinstance(found.answer, Unavailable)
    assert "BadGzipFile" in found.answer.why


async def test_statistics_run_in_a_process_of_their_own_which_comes_back_when_it_was_killed() -> None:
    statistics = Statistics()
    try:
        first = await statistics.run(os.getpid)
        assert first != os.getpid()
        with pytest.raises(Exception, match="abruptly"):
            await statistics.run(os._exit, 1)
        assert await statistics.run(os.getpid) not in (first, os.getpid())
    finally:
        statistics.close()
