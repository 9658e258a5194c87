"""Operator: does it see its cluster, and does it keep up?"""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from specdecode_dashboards.panels import PER_SECOND, board, now, over_time, variable

PREFIX = "specdecode_operator_"
CHOSEN = 'namespace=~"$namespace"'
NAMESPACE = variable("namespace", "Namespace", f"{PREFIX}queue_depth", "namespace")
DURATION = "reconcile_duration_seconds"
WAIT = "queue_wait_seconds"
PODS = 'kind="Pod"'
SILENT = 120
"""Seconds from which a watch is one that lost its server: a live one has bookmarks."""


def operator() -> Dashboard:
    """The dashboard."""
    return board(
        "operator",
        "specdecode / Operator",
        "The operator's own work: reconciles, their queue, its watches and what it writes.",
        [NAMESPACE],
        [
            now(
                "Watch age",
                "Oldest sign of life of a watch.",
                "s",
                f"max({_of('watch_age_seconds')})",
                limit=SILENT,
            ),
            now("Queue", "Objects waiting for a reconcile.", "short", f"sum({_of('queue_depth')})", limit=20),
            now("Reconciles", "Reconciles done.", PER_SECOND, f"sum({_rate(f'{DURATION}_count')})"),
            now(
                "Errors",
                "Share of reconciles that failed and are tried again.",
                "percentunit",
                f"(sum({_rate('reconcile_errors_total')}) or vector(0)) / sum({_rate(f'{DURATION}_count')})",
                limit=0.05,
            ),
            now(
                "Writes",
                "Writes to the API server. At rest there are none.",
                PER_SECOND,
                f"sum({_rate('writes_total')}) or vector(0)",
            ),
            now("Pods held", "Pods in the operator's store.", "short", f"sum({_of('store_objects', PODS)})"),
            over_time(
                "Reconcile duration",
                "From reading the object to the last write.",
                "s",
                (_quantile(0.5, DURATION), "median"),
                (_quantile(0.99, DURATION), "99%"),
            ),
            over_time(
                "Wait in the queue",
                "From the first wish for a reconcile to its begin.",
                "s",
                (_quantile(0.5, WAIT), "median"),
                (_quantile(0.99, WAIT), "99%"),
            ),
            over_time(
                "Reconcile errors",
                "Reconciles that failed, by what failed; each is tried again, ever less often.",
                PER_SECOND,
                (f"sum by (error) ({_rate('reconcile_errors_total')})", "{{error}}"),
            ),
            over_time(
                "Watch age by kind",
                f"Time since a watch last said anything, bookmarks included. Above {SILENT} s it sees nothing any "
                "more; at 300 s the kubelet restarts the operator.",
                "s",
                (f"max by (kind) ({_of('watch_age_seconds')})", "{{kind}}"),
                limit=SILENT,
            ),
            over_time(
                "Watches begun anew",
                "By why. Some `expired` and `ended` are how the API server works.",
                PER_SECOND,
                (f"sum by (kind, why) ({_rate('watch_restarts_total')})", "{{kind}}: {{why}}"),
            ),
            over_time(
                "Writes to the API server",
                "By kind and verb. What writes at rest is fighting somebody.",
                PER_SECOND,
                (f"sum by (kind, verb) ({_rate('writes_total')})", "{{kind}} {{verb}}"),
                stacked=True,
            ),
            over_time(
                "Attestations asked for",
                "Requests to pods, by what came. `none`: most often a NetworkPolicy is in the way.",
                "reqps",
                (f"sum by (answer) ({_rate('attestation_requests_total')})", "{{answer}}"),
                width=12,
            ),
            over_time(
                "Objects held",
                "What the operator keeps in memory, by kind; its memory grows with it.",
                "short",
                (f"sum by (kind) ({_of('store_objects')})", "{{kind}}"),
                width=12,
            ),
        ],
    )


def _of(metric: str, matchers: str = "") -> str:
    return f"{PREFIX}{metric}{{{CHOSEN}{',' if matchers else ''}{matchers}}}"


def _rate(metric: str) -> str:
    return f"rate({_of(metric)}[$__rate_interval])"


def _quantile(share: float, histogram: str) -> str:
    return f"histogram_quantile({share}, sum by (le) ({_rate(f'{histogram}_bucket')}))"
