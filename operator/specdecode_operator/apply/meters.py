"""The operator's own metrics: one table, in a registry of its own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from specdecode_operator.apply.reported import Reported

PREFIX = "specdecode_operator"


class Meters:
    """Counters and clocks of this process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile = Histogram(
            f"{PREFIX}_reconcile_duration_seconds",
            "Time of one reconcile, from the read of the object to the last write.",
            ["kind"],
            buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            registry=self.registry,
        )
        self.errors = Counter(
            f"{PREFIX}_reconcile_errors_total",
            "Reconciles that failed and will be tried again, by what failed.",
            ["kind", "error"],
            registry=self.registry,
        )
        self.writes = Counter(
            f"{PREFIX}_writes_total",
            "Writes to the API server. At rest this does not grow.",
            ["kind", "verb"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            f"{PREFIX}_queue_depth", "Objects waiting for a reconcile.", ["kind"], registry=self.registry
        )
        self.queue_wait = Histogram(
            f"{PREFIX}_queue_wait_seconds",
            "Time from the first wish for a reconcile to its begin.",
            ["kind"],
            registry=self.registry,
        )
        self.retries = Counter(
            f"{PREFIX}_queue_retries_total", "Reconciles put off after a failure.", ["kind"], registry=self.registry
        )
        self.watch_age = Gauge(
            f"{PREFIX}_watch_age_seconds",
            "Time since the watch of a kind last said anything, bookmarks included; the oldest of its namespaces.",
            ["kind"],
            registry=self.registry,
        )
        self.watch_restarts = Counter(
            f"{PREFIX}_watch_restarts_total", "Watches begun anew, by why.", ["kind", "why"], registry=self.registry
        )
        self.attestations = Counter(
            f"{PREFIX}_attestation_requests_total",
            "Requests to pods for their attestation, by what came: attestation, other, none.",
            ["answer"],
            registry=self.registry,
        )
        self.canary_answers = Counter(
            f"{PREFIX}_canary_answers_total",
            "What was found out for canaries, by what was wanted (register, look) and what came.",
            ["wanted", "answer"],
            registry=self.registry,
        )
        self.held = Gauge(
            f"{PREFIX}_store_objects", "Objects of a kind in the store.", ["kind"], registry=self.registry
        )
        self.reported = Reported()
        self.registry.register(self.reported)
