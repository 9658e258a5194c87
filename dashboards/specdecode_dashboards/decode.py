"""Decode path: where a step's time goes, and what a draft brings."""

from __future__ import annotations

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from specdecode_dashboards.panels import (
    HEIGHT,
    NAMESPACE,
    OBJECTS,
    OF_REVISION,
    PER_SECOND,
    REVISIONS,
    TOKENS,
    bars,
    board,
    over_time,
    rows,
    variable,
)
from specdecode_dashboards.records import ACCEPTANCE, ACCEPTED, DRAFTS, PROBE, REVISION, SPAN_STEPS, mean_span

LEGEND = "{{namespace}}/{{specdecode_name}} {{specdecode_revision}}"
BATCHES = variable("batch", "Batch", f"{SPAN_STEPS}{{{OF_REVISION}}}", "batch")
BATCH = f'{OF_REVISION},batch=~"$batch"'
STATES = f"specdecode_optimization_info{{{OF_REVISION}}}"
STEPS = f'{SPAN_STEPS}{{span="target_forward_gpu",{BATCH}}}'


def decode_path() -> Dashboard:
    """The dashboard."""
    return board(
        "decode-path",
        "specdecode / Decode path",
        "The spans of a decode step by revision, acceptance, and the state of each optimization. Means over five "
        "minutes of steps without prefill; a batch is the power of two that holds a step's requests.",
        [NAMESPACE, OBJECTS, REVISIONS, BATCHES],
        [
            _span(
                "Propose, host",
                "propose_host",
                "Host time of one propose call. While the device waits for it, it is lost.",
            ),
            _span("Drafter, device", "drafter_gpu", "The drafter's span on the device: graph replay, or forward."),
            _span(
                "Target, device",
                "target_forward_gpu",
                "The target's forward on the device: the rest of a step is measured against it.",
            ),
            _span(
                "Draft rebuild, host",
                "draft_rebuild_host",
                "Host time of rebuilding the draft's metadata; 0 in a step that skips it.",
            ),
            _span("Input preparation, host", "input_prep_host", "Host time of preparing the target's input."),
            _span(
                "Propose, device",
                "propose_gpu",
                "Propose from its first to its last kernel: more than the drafter's span by what lies between kernels.",
            ),
            over_time(
                "Acceptance length",
                "Tokens that a step emits for a request, the target's own included. 1: no draft is accepted.",
                TOKENS,
                (f"{ACCEPTANCE}{{{OF_REVISION}}}", LEGEND),
            ),
            bars(
                "Acceptance by position",
                "Share of drafts whose token at this position was accepted: it, and all before it.",
                "percentunit",
                (
                    f"sum by (position) ({ACCEPTED}{{{OF_REVISION}}} > 0) / ignoring (position) group_left "
                    f"sum({DRAFTS}{{{OF_REVISION}}})",
                    "position {{position}}",
                ),
                top=1,
            ),
            over_time(
                "Steps by batch",
                "Share of decode steps by the requests in them. Spans grow with the batch, so compare like with like.",
                "percentunit",
                (
                    f"sum by (batch) ({STEPS} > 0) / ignoring (batch) group_left sum({STEPS})",
                    "{{batch}}",
                ),
                stacked=True,
                top=1,
            ),
            rows(
                "Optimizations",
                "State of each optimization, from the files that the engines have checked: active, disabled by its "
                "switch, or built into the release. More than one row for a revision: its pods differ.",
                {
                    "specdecode_name": "object",
                    "specdecode_revision": "revision",
                    "optimization": "optimization",
                    "state": "state",
                    "switchable": "switchable",
                },
                (f"count by ({REVISION}, optimization, state, switchable) ({STATES})", "pods"),
                height=HEIGHT,
            ),
            over_time(
                "Probes",
                "A fixed short workload, the same in every image. If it moves, the machine or the image did.",
                "s",
                (f"{PROBE}{{{OF_REVISION}}}", f"{LEGEND} {{{{probe}}}}"),
                width=6,
            ),
            over_time(
                "Samples dropped",
                "Samples that couldn't be taken, by reason. Nothing is dropped silently; a canary needs this near 0.",
                PER_SECOND,
                (
                    f"sum by (reason) (rate(specdecode_samples_dropped_total{{{OF_REVISION}}}[$__rate_interval]))",
                    "{{reason}}",
                ),
                width=6,
            ),
        ],
    )


def _span(title: str, span: str, text: str) -> timeseries.Panel:
    return over_time(title, text, "s", (mean_span(span, BATCH), LEGEND))
