"""What a canary asks for, from the backend that its object names: `apply` and `metrics` know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from specdecode_operator.api.errors import InvalidObject
from specdecode_operator.apply import canary
from specdecode_operator.apply.canary import Missing
from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.windows import Grid
from specdecode_operator.metrics.backends import Backend, choose
from specdecode_operator.metrics.errors import MetricsError, NoData
from specdecode_operator.metrics.fetch import fetch
from specdecode_operator.metrics.query import Metric, Question

PIECE_SECONDS: Final = 600.0
"""Time that is read at once, if a window isn't longer: an answer stays small."""


class Sampler:
    """Samples from the backends of the chart's values."""

    def __init__(self, backends: Iterable[Backend]) -> None:
        self._backends = tuple(backends)

    async def __call__(self, asked: canary.Question) -> tuple[Sample, ...]:
        """The samples; raises Missing. A piece of the time that has none is no reason to stop while another has."""
        try:
            backend = choose(self._backends, asked.backend, namespace=asked.namespace, path="spec.metrics.backend")
        except InvalidObject as error:
            raise Missing("BackendDown", str(error)) from None
        found: list[Sample] = []
        nothing: NoData | None = None
        try:
            for piece in question_of(asked).pieces(max(1, int(PIECE_SECONDS // asked.seconds))):
                try:
                    found += await fetch(backend, piece)
                except NoData as error:
                    nothing = error
        except MetricsError as error:
            raise Missing("BackendDown", str(error)) from None
        if not found:
            raise Missing("NoData", str(nothing))
        return tuple(found)


def question_of(asked: canary.Question) -> Question:
    """The same in the words of the metrics' room. Finished requests come with each sample."""
    return Question(
        namespace=asked.namespace,
        name=asked.name,
        grid=Grid(start=asked.start, seconds=asked.seconds, count=asked.windows, scrape_interval=asked.scrape),
        metrics=tuple(Metric(name, buckets=name in asked.histograms) for name in asked.metrics),
        revisions=asked.revisions,
    )
