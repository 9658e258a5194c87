"""The whole way from a question to samples, within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from specdecode_operator.api import names
from specdecode_operator.gates.samples import Sample
from specdecode_operator.metrics.answer import Series
from specdecode_operator.metrics.backends import Backend
from specdecode_operator.metrics.errors import BackendDown, NoData
from specdecode_operator.metrics.pods import Pod, pods
from specdecode_operator.metrics.prometheus import Limits, Prometheus
from specdecode_operator.metrics.query import Metric, Question, queries
from specdecode_operator.metrics.tracks import samples

FINISHED = Metric(names.METRIC_FINISHED)


async def fetch(backend: Backend, question: Question, *, limits: Limits | None = None) -> tuple[Sample, ...]:
    """The samples of a question, in no order that means anything.

    Raises:
        NoData: no pod of the question was scraped in its windows, or none has any of its metrics.
        BackendDown: the backend gave no answer that can be used before the deadline.
        TooMuch: an answer is too large; ask for fewer windows or metrics at a time.
    """
    limits = limits or Limits()
    try:
        async with asyncio.timeout(limits.deadline), Prometheus(backend, limits) as asked:
            return await _fetch(asked, backend, question)
    except TimeoutError:
        why = f"backend {backend.name}: the samples weren't there after {limits.deadline:g} s, all tries together"
    raise BackendDown(why)


async def _fetch(asked: Prometheus, backend: Backend, question: Question) -> tuple[Sample, ...]:
    """Query after query: what one brought is made small before the next is asked."""
    identity, measured = queries(question, backend.labels)
    seen = await asyncio.to_thread(_pods, question, await asked.ask(identity))
    if not seen:
        raise NoData(f"backend {backend.name}: no such pod was scraped in that time; asked was: {identity}")
    found: list[Sample] = []
    for metric, query in measured:
        found += await asyncio.to_thread(_samples, question, metric, await asked.ask(query), seen)
    if not found:
        last = measured[-1][1] if measured else identity
        raise NoData(f"backend {backend.name}: {len(seen)} pods were scraped and have none of it; asked was: {last}")
    return tuple(found)


def _samples(question: Question, metric: Metric, series: tuple[Series, ...], seen: Mapping[str, Pod]) -> list[Sample]:
    return list(samples(question, metric, series, seen))


def _pods(question: Question, series: tuple[Series, ...]) -> Mapping[str, Pod]:
    """The pods, each with the requests that it finished."""
    seen = pods(series)
    finished = [one for one in series if one.name == names.METRIC_FINISHED]
    requests: dict[str, dict[float, float]] = {}
    for sample in samples(question, FINISHED, finished, seen):
        if not sample.flags:
            requests.setdefault(sample.pod_uid, {})[sample.window_start] = sample.count
    return {uid: replace(pod, requests=requests.get(uid, {})) for uid, pod in seen.items()}
