"""Recorded step samples for an engine that has no steps of its own: one goes through all of them, again and again."""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from specdecode_engine.telemetry import layout, recording
from specdecode_engine.telemetry.increments import Increments
from specdecode_engine.telemetry.layout import CELLS, SPAN_INDEX, SPANS

WITHOUT_DRAFTS = frozenset({"input_prep_host", "target_forward_gpu"})
"""What an engine without speculative decoding has of a step's spans."""


class Playback:
    """The samples of one recording, by span and cell.

    Args:
        text: The recording.
        scale: Span -> factor on its seconds: how an engine is made to differ in this span alone.
    """

    def __init__(self, text: str, scale: Mapping[str, float] | None = None) -> None:
        self.engine, windows = recording.parse(text)
        self._scale = scale or {}
        self._every = int(self.engine["sample_every"])
        self._steps = 0
        self._streams = {key: itertools.cycle(values) for key, values in _values(windows).items()}

    def step(self, into: Increments, running: int, *, mixed: bool, drafting: bool) -> None:
        """Count one step of `running` requests, if it is one that the recorded engine would have sampled.

        Then each span has a sample, from steps of that batch or the nearest one.
        """
        self._steps += 1
        if self._steps % self._every:
            return
        cell = layout.cell(running, mixed=mixed)
        for span in SPANS:
            if span.labelled and (drafting or span.name in WITHOUT_DRAFTS):
                self._observe(into, span.name, cell)

    def probe(self, into: Increments) -> None:
        """Count one run of the probe."""
        for span in SPANS:
            if not span.labelled:
                self._observe(into, span.name, 0)

    def _observe(self, into: Increments, span: str, cell: int) -> None:
        stream = self._nearest(span, cell)
        if stream is not None:
            into.observe(SPAN_INDEX[span], cell, next(stream) * self._scale.get(span, 1.0))

    def _nearest(self, span: str, cell: int) -> Iterator[float] | None:
        """The samples of this cell, else of the cell nearest in batch; a mixed step only stands in for want of any."""
        recorded = [at for at in range(len(CELLS)) if (span, at) in self._streams]
        return self._streams[span, min(recorded, key=lambda at: _distance(at, cell))] if recorded else None


def _distance(one: int, other: int) -> float:
    mixed = len(CELLS) - 1
    return math.inf if (one == mixed) != (other == mixed) else abs(one - other)


def _values(windows: list[dict[str, Any]]) -> dict[tuple[str, int], list[float]]:
    """(span, cell) -> seconds, in the order they were recorded; several in one window as that many of their mean."""
    index = {f"{step}/{batch}": at for at, (step, batch) in enumerate(CELLS)} | {recording.UNLABELLED: 0}
    values: dict[tuple[str, int], list[float]] = {}
    for line in windows:
        for cell, spans in line["spans"].items():
            for span, (count, seconds) in spans.items():
                values.setdefault((span, index[cell]), []).extend([seconds / count] * int(count))
    return values
