"""The work queue: which objects are to be reconciled, and by whom.

One worker a key, never two: a key that is added while it is being worked on is worked on again afterwards. Added
twice while it waits, it is done once. After a failure it comes back with a growing delay; after success, when its
plan asked for it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.apply.client import ApiError, Conflict, Unreachable
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key

logger = logging.getLogger(__name__)

BACKOFF: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)
"""Seconds until a failed key is tried again, by failures in a row."""
CONFLICT_RETRY: Final = 0.05
"""Seconds until a key is planned again because something changed under it; not a failure. Doubles in a row."""
CONFLICT_MOST: Final = 5.0

Work = Callable[[Key], Awaitable[timedelta | None]]


class WorkQueue:
    """Keys waiting, and the workers that take them."""

    def __init__(self, work: Work, meters: Meters, *, workers: int = 8, deadline: float = 120.0) -> None:
        self._work = work
        self._meters = meters
        self._workers = workers
        self._deadline = deadline
        self._waiting: dict[Key, float] = {}
        self._busy: dict[Key, float] = {}
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._conflicts: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._depth = meters.queue_depth.labels(names.KIND)

    def add(self, key: Key) -> None:
        """Have the key worked on as soon as may be."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = time.monotonic()
            self._depth.set(len(self._waiting))
        self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have it worked on in a while; the earlier of two wishes counts."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + seconds:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    @property
    def oldest_busy(self) -> float:
        """Seconds that the longest running reconcile has taken so far; 0 without one."""
        return max((time.monotonic() - since for since in self._busy.values()), default=0.0)

    async def run(self) -> None:
        """Work until cancelled; then let what is being done finish its write."""
        workers = [asyncio.create_task(self._worker(), name=f"worker {number}") for number in range(self._workers)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    async def _worker(self) -> None:
        while True:
            key = await self._take()
            try:
                await self._attempt(key)
            finally:
                self._busy.pop(key, None)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _take(self) -> Key:
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        key, since = next(iter(self._waiting.items()))
        del self._waiting[key]
        self._busy[key] = time.monotonic()
        self._depth.set(len(self._waiting))
        self._meters.queue_wait.labels(names.KIND).observe(time.monotonic() - since)
        return key

    async def _attempt(self, key: Key) -> None:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                after = await self._work(key)
        except Conflict as error:
            logger.debug("%s: changed meanwhile, planned again: %s", key, error)
            conflicts = self._conflicts.get(key, 0)
            self._conflicts[key] = conflicts + 1
            self.add_after(key, min(CONFLICT_RETRY * 2**conflicts, CONFLICT_MOST))
        except (ApiError, Unreachable, TimeoutError) as error:
            self._put_off(key, error)
            logger.warning("%s: %s; tried again", key, error or "took too long")
        except Exception as error:
            self._put_off(key, error)
            logger.exception("%s: reconcile failed; tried again", key)
        else:
            self._failures.pop(key, None)
            self._conflicts.pop(key, None)
            if after is not None:
                self.add_after(key, max(after.total_seconds(), 0.1))
        finally:
            self._meters.reconcile.labels(names.KIND).observe(time.monotonic() - started)

    def _put_off(self, key: Key, error: BaseException) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._meters.errors.labels(names.KIND, type(error).__name__).inc()
        self._meters.retries.labels(names.KIND).inc()
        delay = BACKOFF[min(failures, len(BACKOFF) - 1)]
        self.add_after(key, delay * random.uniform(0.8, 1.2))
