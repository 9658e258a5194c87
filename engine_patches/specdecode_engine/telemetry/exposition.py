"""The Prometheus side, in the frontend: one object a metric, every child made at 0 when the engine starts.

A worker's counts arrive already in buckets.  prometheus_client's Histogram only observes single values, so the buckets'
and the sum's own counters are raised; they are what observe() raises, and what multi-process mode stores.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specdecode_engine.telemetry import increments, layout
from specdecode_engine.telemetry.layout import CELLS, COMMON_LABELS, DROPPED, SPANS

_FOREIGN = DROPPED.index("foreign_layout")


class Exposition:
    """The metrics of one engine (one data-parallel rank) in `registry`."""

    def __init__(self, metrics: "Metrics", *, model_name: str, engine: int) -> None:
        self._common = (model_name, str(engine))
        self._spans = [
            [metrics.spans[at].labels(*self._common, *cell) for cell in CELLS]
            if span.labelled
            else [metrics.spans[at].labels(*self._common)]
            for at, span in enumerate(SPANS)
        ]
        self._lengths = metrics.lengths.labels(*self._common)
        self._drafts = metrics.drafts.labels(*self._common)
        self._draft_tokens = metrics.draft_tokens.labels(*self._common)
        self._accepted = [metrics.accepted.labels(*self._common, str(at)) for at in range(layout.MAX_POSITIONS)]
        self._finished = metrics.finished.labels(*self._common)
        self._started = metrics.started.labels(*self._common)
        self._dropped = [metrics.dropped.labels(*self._common, reason) for reason in DROPPED]
        self._metrics = metrics

    def info(self, engine: Mapping[str, str], optimizations: Sequence[tuple[str, str, bool]]) -> None:
        """What runs here: the engine's facts, and (name, state, switchable) of each optimization."""
        self._metrics.engine_info.labels(*self._common, *(engine[name] for name in ENGINE_LABELS)).set(1)
        for name, state, switchable in optimizations:
            self._metrics.optimization_info.labels(*self._common, name, state, str(switchable).lower()).set(1)

    def add(self, shipped: Any) -> None:
        """Add a worker's increments.  What is of another layout counts as one dropped sample, never as data."""
        if shipped is None:
            return
        try:
            shipment = increments.read(shipped)
        except increments.ForeignLayout:
            self._dropped[_FOREIGN].inc()
            return
        self._started.set(shipment.started)
        for reason, count in enumerate(shipment.dropped):
            if count:
                self._dropped[reason].inc(count)
        for row in shipment.rows:
            _raise(self._spans[row.span][row.cell if SPANS[row.span].labelled else 0], row.buckets, row.sum)

    def add_drafts(self, *, drafts: int, draft_tokens: int, accepted_at: Sequence[int]) -> None:
        """Count drafts as the engine counts them: `accepted_at[i]` of `drafts` had token i accepted.

        A token is accepted only if those before it were, so these counts hold the whole distribution of lengths: with
        n_i drafts of at least i accepted tokens, n_i - n_(i+1) emitted exactly i + 1 (the bonus token included).
        """
        self._drafts.inc(drafts)
        self._draft_tokens.inc(draft_tokens)
        at_least = [drafts, *accepted_at]
        for position, count in enumerate(accepted_at):
            if count:
                self._position(position).inc(count)
        exactly = [more - fewer for more, fewer in zip(at_least, [*at_least[1:], 0], strict=True)]
        bounds = len(layout.LENGTH_BOUNDS)
        buckets = [*exactly[:bounds], *[0] * (bounds - len(exactly)), sum(exactly[bounds:])]
        _raise(self._lengths, buckets, float(drafts + sum(accepted_at)))

    def _position(self, position: int) -> Counter:
        """An engine may draft more than the operator allows: its later positions get a series when they come up."""
        if position < len(self._accepted):
            return self._accepted[position]
        return self._metrics.accepted.labels(*self._common, str(position))

    def add_finished(self, requests: int) -> None:
        """Count finished requests."""
        self._finished.inc(requests)


ENGINE_LABELS = ("vllm_version", "series", "manifest_digest", "device", "method", "sample_every", "worker_rank")

_KEPT = "_specdecode_metrics"
"""Attribute of a registry."""


class Metrics:
    """The collectors themselves; one set a registry, shared by the engines of a process."""

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "Metrics":
        """The set in `registry`, made if there is none.

        It is kept there and not in a module, so that a plugin that is loaded anew finds it and goes on counting: a
        second set would be refused for its names.
        """
        if not hasattr(registry, _KEPT):
            setattr(registry, _KEPT, cls(registry))
        kept: Metrics = getattr(registry, _KEPT)
        return kept

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> Histogram:
            return Histogram(name, text, (*COMMON_LABELS, *labels), registry=registry, buckets=bounds)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, (*COMMON_LABELS, *labels), registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            # several API servers export the same value: the newest is enough
            return Gauge(name, text, (*COMMON_LABELS, *labels), registry=registry, multiprocess_mode="mostrecent")

        self.spans = [
            histogram(span.metric, span.text, ("step", "batch") if span.labelled else (), layout.BOUNDS)
            for span in SPANS
        ]
        self.lengths = histogram(
            layout.ACCEPTANCE,
            "Tokens emitted for a request by one verified draft, the bonus token included.",
            (),
            layout.LENGTH_BOUNDS,
        )
        self.drafts = counter(layout.DRAFTS, "Drafts verified.")
        self.draft_tokens = counter(layout.DRAFT_TOKENS, "Tokens drafted and verified.")
        self.accepted = counter(layout.ACCEPTED, "Drafted tokens accepted, by position.", "position")
        self.finished = counter(layout.FINISHED, "Requests finished: the sample size of acceptance.")
        self.dropped = counter(layout.SAMPLES_DROPPED, "Samples that could not be taken, by reason.", "reason")
        self.started = gauge(layout.STARTED, "When the engine's worker was started; 0 until its first sampled step.")
        self.engine_info = gauge(layout.ENGINE_INFO, "What runs in this process.", *ENGINE_LABELS)
        self.optimization_info = gauge(
            layout.OPTIMIZATION_INFO,
            "State of each optimization, from the installed files.",
            "optimization",
            "state",
            "switchable",
        )


def _raise(child: Any, buckets: Sequence[int], total: float) -> None:
    for counter, count in zip(child._buckets, buckets, strict=True):
        if count:
            counter.inc(count)
    child._sum.inc(total)
