"""The work queue: one worker a key, nothing lost, failures come back later."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from specdecode_operator.apply.client import Conflict, Unreachable
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key
from specdecode_operator.queue import WorkQueue

A, B = Key("serving", "a"), Key("serving", "b")


class Work:
    """Work that a test holds back and lets go."""

    def __init__(self) -> None:
        self.begun: list[Key] = []
        self.running = 0
        self.most_running: dict[Key, int] = {}
        self.held: asyncio.Event | None = None
        self.outcomes: list[timedelta | Exception | None] = []
        self.changed = asyncio.Condition()

    async def __call__(self, key: Key) -> timedelta | None:
        self.running += 1
        self.most_running[key] = max(self.most_running.get(key, 0), self.running)
        async with self.changed:
            self.begun.append(key)
            self.changed.notify_all()
        try:
            if self.held is not None:
                await self.held.wait()
            outcome = self.outcomes.pop(0) if self.outcomes else None
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        finally:
            self.running -= 1

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self.changed:
            await self.changed.wait_for(condition)


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def queue(work: Work) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(work, Meters(), workers=4, deadline=30)
    job = asyncio.create_task(queue.run())
    yield queue
    job.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await job


async def test_a_key_added_twice_while_waiting_is_done_once(work: Work) -> None:
    queue = WorkQueue(work, Meters(), workers=1)
    queue.add(A)
    queue.add(A)
    queue.add(B)
    job = asyncio.create_task(queue.run())
    await work.until(lambda: len(work.begun) == 2)
    job.cancel()
    assert work.begun == [A, B]


async def test_a_key_added_while_it_is_worked_on_is_done_again_and_never_twice_at_once(
    work: Work, queue: WorkQueue
) -> None:
    work.held = asyncio.Event()
    queue.add(A)
    await work.until(lambda: work.begun == [A])
    queue.add(A)
    queue.add(A)
    assert work.begun == [A]
    work.held.set()
    await work.until(lambda: work.begun == [A, A])
    assert work.most_running[A] == 1


async def test_other_keys_are_not_held_up_by_a_slow_one(work: Work, queue: WorkQueue) -> None:
    work.held = asyncio.Event()
    queue.add(A)
    await work.until(lambda: work.begun == [A])
    queue.add(B)
    await work.until(lambda: work.begun == [A, B])
    work.held.set()


@pytest.mark.parametrize("failure", [Unreachable("no"), ValueError("a bug"), Conflict(409, {})])
async def test_a_failure_comes_back(work: Work, queue: WorkQueue, failure: Exception) -> None:
    work.outcomes = [failure, None]
    queue.add(A)
    await work.until(lambda: work.begun == [A, A])


async def test_a_plan_that_asks_to_be_looked_at_again_is(work: Work, queue: WorkQueue) -> None:
    work.outcomes = [timedelta(seconds=0), None]
    queue.add(A)
    await work.until(lambda: work.begun == [A, A])


async def test_the_earlier_of_two_wishes_counts(work: Work, queue: WorkQueue) -> None:
    queue.add_after(A, 0.01)
    queue.add_after(A, 3600)
    await work.until(lambda: work.begun == [A])
    queue.add_after(B, 3600)
    queue.add_after(B, 0.01)
    await work.until(lambda: work.begun == [A, B])


async def test_the_longest_running_reconcile_is_seen_by_the_watchdog(work: Work, queue: WorkQueue) -> None:
    assert queue.oldest_busy == 0
    work.held = asyncio.Event()
    queue.add(A)
    await work.until(lambda: work.begun == [A])
    assert queue.oldest_busy > 0
    work.held.set()
