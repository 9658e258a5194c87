"""Counts since the last shipment, in arrays of fixed size: nothing is allocated in a step.

Shipped as bytes, because that passes every hop between a worker and the frontend unchanged (pickle to the engine core,
msgpack to the frontend) and costs one field.
"""

import struct
import time
import zlib
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from specdecode_engine.telemetry.layout import BOUNDS, CELLS, DROPPED, SPANS

SHIP_EVERY = 0.1
"""Seconds between shipments, at least, where a step takes about as long: on a CPU."""

SHIP_EVERY_ON_DEVICE = 1.0
"""The same where a step takes milliseconds: a shipment costs as much of one as all hooks of a sampled step."""

STARTED = time.time()
"""When this process began to count, in seconds since 1970: it moves when the engine is started anew."""

BUCKETS = len(BOUNDS) + 1
_HISTOGRAMS = len(SPANS) * len(CELLS)
_LAYOUT = zlib.crc32(repr(([span.name for span in SPANS], CELLS, BOUNDS, DROPPED)).encode())
_HEADER = struct.Struct("<Id")
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

    def __init__(self, ship_every: float | None = None) -> None:
        self._ship_every = SHIP_EVERY if ship_every is None else ship_every
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
        """What was counted since the last drain; None if nothing was, or it was too short a while ago."""
        if not self._pending or now - self._shipped < self._ship_every:
            return None
        self._shipped, self._pending = now, False
        rows = [index for index in range(_HISTOGRAMS) if self._touched[index]]
        out = bytearray(_HEADER.pack(_LAYOUT, STARTED))
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


@dataclass(frozen=True)
class Shipment:
    """What `drain` gave, read."""

    started: float
    """When the process began that counted."""
    dropped: tuple[int, ...]
    """By reason."""
    rows: tuple[Row, ...]


def read(shipped: Any) -> Shipment:
    """What `drain` gave.  Raises ForeignLayout if that is not this layout's bytes."""
    at = _HEADER.size + _DROPS.size
    if not isinstance(shipped, bytes) or len(shipped) < at or (len(shipped) - at) % _ROW.size:
        raise ForeignLayout(f"{type(shipped).__name__}, not the bytes of a shipment")
    layout, started = _HEADER.unpack_from(shipped)
    if layout != _LAYOUT:
        raise ForeignLayout(f"{layout:#x}, not {_LAYOUT:#x}")
    rows = tuple(
        Row(index // len(CELLS), index % len(CELLS), total, tuple(buckets))
        for index, total, *buckets in _ROW.iter_unpack(shipped[at:])
    )
    return Shipment(started, _DROPS.unpack_from(shipped, _HEADER.size), rows)
