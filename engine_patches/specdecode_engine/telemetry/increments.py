"""Counts since the last shipment, in arrays of fixed size: nothing is allocated in a step.

Shipped as bytes, because that passes every hop between a worker and the frontend unchanged (pickle to the engine core,
msgpack to the frontend) and costs one field.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from specdecode_engine.telemetry.layout import BOUNDS, CELLS, DROPPED, SPANS

SHIP_EVERY = 0.1
"""Seconds between shipments, at least."""

BUCKETS = len(BOUNDS) + 1
_HISTOGRAMS = len(SPANS) * len(CELLS)
_HEADER = struct.Struct("<IHHHH")
_LAYOUT = (len(SPANS), len(CELLS), BUCKETS, len(DROPPED))
_MAGIC = 0x53444531  # "SDE1"
_ROW = struct.Struct("<Hd" + "I" * BUCKETS)
_DROPS = struct.Struct("<" + "I" * len(DROPPED))


class ForeignLayout(Exception):
    """The bytes come from another version of this package, or are none of ours."""


@dataclass(frozen=True)
class Row:
    """What one histogram gained."""

    span: int
    cell: int
    sum: float
    """Seconds."""
    buckets: tuple[int, ...]
    """Observations in each bucket (not cumulative), the last one unbounded."""


class Increments:
    """The worker's side: observe in a step, drain now and then."""

    def __init__(self) -> None:
        self._buckets = array("I", bytes(4 * _HISTOGRAMS * BUCKETS))
        self._sums = array("d", bytes(8 * _HISTOGRAMS))
        self._dropped = array("I", bytes(4 * len(DROPPED)))
        self._touched = bytearray(_HISTOGRAMS)
        self._shipped = 0.0
        self._pending = False

    def observe(self, span: int, cell: int, seconds: float) -> None:
        """Count one sample.  A bound belongs to the bucket below it, as in Prometheus."""
        histogram = span * len(CELLS) + cell
        self._buckets[histogram * BUCKETS + bisect_left(BOUNDS, seconds)] += 1
        self._sums[histogram] += seconds
        self._touched[histogram] = 1
        self._pending = True

    def drop(self, reason: int, count: int = 1) -> None:
        """Count samples that could not be taken; `reason` indexes DROPPED."""
        self._dropped[reason] += count
        self._pending = True

    def drain(self, now: float) -> bytes | None:
        """What was counted since the last drain; None if nothing was, or less than SHIP_EVERY seconds ago."""
        if not self._pending or now - self._shipped < SHIP_EVERY:
            return None
        self._shipped, self._pending = now, False
        rows = [index for index in range(_HISTOGRAMS) if self._touched[index]]
        out = bytearray(_HEADER.pack(_MAGIC, *_LAYOUT))
        out += _DROPS.pack(*self._dropped)
        for index in rows:
            start = index * BUCKETS
            out += _ROW.pack(index, self._sums[index], *self._buckets[start : start + BUCKETS])
            self._sums[index] = 0.0
            self._touched[index] = 0
            for bucket in range(start, start + BUCKETS):
                self._buckets[bucket] = 0
        for reason in range(len(DROPPED)):
            self._dropped[reason] = 0
        return bytes(out)


def read(shipped: bytes) -> tuple[tuple[int, ...], Iterator[Row]]:
    """(dropped by reason, rows) of what `drain` gave.  Raises ForeignLayout if these are not this layout's bytes."""
    at = _HEADER.size + _DROPS.size
    if len(shipped) < at or _HEADER.unpack_from(shipped) != (_MAGIC, *_LAYOUT) or (len(shipped) - at) % _ROW.size:
        raise ForeignLayout(f"{len(shipped)} bytes that are not of layout {_LAYOUT}")
    rows = (
        Row(index // len(CELLS), index % len(CELLS), total, tuple(buckets))
        for index, total, *buckets in _ROW.iter_unpack(shipped[at:])
    )
    return _DROPS.unpack_from(shipped, _HEADER.size), rows


def merge(one: bytes | None, other: bytes | None) -> bytes | None:
    """Both shipments in one: rows are increments, so laying them behind each other adds them up.

    Several worker outputs can meet in one scheduler step; drops are added, rows are kept as they are.
    """
    if one is None or other is None:
        return one or other
    first, _ = read(one)
    second, _ = read(other)
    at = _HEADER.size + _DROPS.size
    drops = _DROPS.pack(*(a + b for a, b in zip(first, second, strict=True)))
    return one[: _HEADER.size] + drops + one[at:] + other[at:]
