"""What a backend sent, read as series of raw samples. It is checked here, once, and trusted behind this line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from specdecode_operator.metrics.errors import BackendDown, TooMuch
from specdecode_operator.metrics.query import Query

MAX_TEXT: Final = 253
"""Characters of a label; a sample takes no more."""

SLACK: Final = 0.002
"""Seconds by which a sample may lie outside what was asked, for rounding."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One series: labels, name included, and (time, value) as they came."""

    labels: Mapping[str, str]
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.labels.get("__name__", "")


class _Garbled(Exception):
    """It isn't what the API documents."""


def read(body: bytes, query: Query, *, most: int) -> tuple[Series, ...]:
    """The series of an answer, at most `most`.

    Raises:
        BackendDown: it is no answer to this query, or one in part.
        TooMuch: there are more series, of which the backend was asked for one.
    """
    try:
        return tuple(_series(row, query) for row in _rows(json.loads(body), most) if "values" in row)
    except _Garbled as fault:
        why = str(fault)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        why = "it isn't the JSON that the API documents"
    raise BackendDown(f"the answer can't be used: {why}")


def _rows(document: Any, most: int) -> list[Any]:
    if not isinstance(document, dict) or document.get("status") != "success":
        raise _Garbled("it doesn't say success")
    data = document.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        raise _Garbled("raw samples were asked for, and something else came")
    rows: list[Any] = data["result"]
    if len(rows) > most:
        raise TooMuch(f"there are more than {most} series")
    if document.get("warnings"):
        raise _Garbled("the backend warns that it isn't whole")
    return rows


def _series(row: Any, query: Query) -> Series:
    labels = dict(_labels(row["metric"]))
    if labels.get("__name__") not in query.series:
        raise _Garbled("it holds a metric that wasn't asked for")
    points = tuple(_point(point) for point in row["values"])
    if any(not query.since - SLACK <= time <= query.until + SLACK for time, _ in points):
        raise _Garbled("it holds samples of another time than was asked for")
    return Series(labels, tuple(point for point in points if point[0] > query.since))


def _labels(found: Any) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if not isinstance(value, str) or len(value) > MAX_TEXT or not (name + value).isprintable():
            raise _Garbled(f"a label isn't printable text of at most {MAX_TEXT} characters")
        yield name, value


def _point(found: Any) -> Point:
    """Time and value; the value is text, since JSON has no NaN."""
    time, value = found
    if isinstance(time, bool) or not isinstance(time, int | float) or not isinstance(value, str):
        raise _Garbled("a sample isn't a time and a number")
    return float(time), float(value)
