"""What is asked: a question about one object's pods, and the queries that answer it, as values that can be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.gates.windows import Grid

LEAD: Final = 2.0
"""Scrape intervals before the first window from which its first scrape may be."""

UP: Final = "up"
IDENTITY: Final = (
    UP,
    names.METRIC_START,
    names.METRIC_OWN_START,
    names.METRIC_ENGINE_INFO,
    names.METRIC_FINISHED,
)
"""What says which process was scraped, when, whether it answered, and how many requests it finished."""


@dataclass(frozen=True)
class Metric:
    """A histogram, or a counter if its name ends in _total."""

    name: str
    buckets: bool = False
    """Whether a histogram's buckets are wanted, which quantiles need: some ten times the series."""

    @property
    def counter(self) -> bool:
        """Whether it is a single number."""
        return self.name.endswith("_total")

    @property
    def series(self) -> tuple[str, ...]:
        """Names of its series."""
        if self.counter:
            return (self.name,)
        return (f"{self.name}_count", f"{self.name}_sum", *([f"{self.name}_bucket"] if self.buckets else []))


@dataclass(frozen=True)
class Question:
    """Samples of which pods, metrics and windows are wanted."""

    namespace: str
    name: str
    """The object's."""
    grid: Grid
    metrics: tuple[Metric, ...]
    revisions: tuple[str, ...] = ()
    """Empty: all of the object's."""
    pods: frozenset[str] = field(default_factory=frozenset)
    """UIDs that are expected, empty for any. Another pod's samples are flagged, not left out: it did take part."""

    def pieces(self, windows: int) -> Iterator[Question]:
        """The same for at most so many windows at a time."""
        for first in range(0, self.grid.count, windows):
            start, _ = self.grid.ends(first)
            yield replace(self, grid=replace(self.grid, start=start, count=min(windows, self.grid.count - first)))


@dataclass(frozen=True)
class Query:
    """One instant query for the raw samples of some time. Its text alone, pasted anywhere, asks the same again."""

    series: tuple[str, ...]
    matchers: tuple[tuple[str, str, str], ...]
    """(label, operator, value)"""
    since: float
    until: float

    def __str__(self) -> str:
        name = ("__name__", "=~" if len(self.series) > 1 else "=", "|".join(self.series))
        selector = ", ".join(f"{label}{operator}{_quoted(value)}" for label, operator, value in (name, *self.matchers))
        return f"{{{selector}}}[{_length(self.until - self.since)}] @ {self.until:.3f}"


def queries(question: Question, labels: Mapping[str, str]) -> tuple[Query, tuple[tuple[Metric, Query], ...]]:
    """The query for the pods' identity, and one for each metric.

    Args:
        question: What is wanted.
        labels: What tells this cluster's series from others' in a backend that holds several.
    """
    since, until = _span(question.grid)
    matchers = _matchers(question, labels)
    return (
        Query(IDENTITY, matchers, since, until),
        tuple((metric, Query(metric.series, matchers, since, until)) for metric in question.metrics),
    )


def _span(grid: Grid) -> tuple[float, float]:
    """From the first scrape that can count to the last, in whole milliseconds, as Prometheus keeps time."""
    end = grid.start + grid.count * grid.seconds
    return round(grid.start - LEAD * grid.scrape_interval, 3), round(end, 3)


def _matchers(question: Question, labels: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    found = [("namespace", "=", question.namespace), ("specdecode_name", "=", question.name)]
    if question.revisions:
        found.append(("specdecode_revision", "=~", "|".join(map(re.escape, sorted(question.revisions)))))
    return (*found, *((label, "=", value) for label, value in sorted(labels.items())))


def _length(seconds: float) -> str:
    milliseconds = round(1000 * seconds)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _quoted(value: str) -> str:
    """A string as PromQL writes it; JSON's escapes are among Go's."""
    return json.dumps(value, ensure_ascii=False)
