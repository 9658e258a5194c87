"""Canary: what its gates say, and both arms of a rollout over each other.

A revision's arm is what the operator says now, joined to the engines' series by the revision.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard

from specdecode_dashboards.panels import (
    OF_OBJECT,
    SOURCE,
    TOKENS,
    bars,
    board,
    over_time,
    rows,
    states,
    variable,
)
from specdecode_dashboards.records import (
    ACCEPTANCE,
    ACCEPTED,
    ARM,
    DRAFTS,
    FINISHED,
    PROBE,
    REVISION,
    SPAN_STEPS,
    mean_span,
)

CHOSEN = OF_OBJECT.replace("=~", "=")
"""One object: two have no common arms."""
BATCHES = variable("batch", "Batch", f"{SPAN_STEPS}{{{CHOSEN}}}", "batch")
ONE_NAMESPACE = variable("namespace", "Namespace", "specdecode_slots", "namespace", several=False)
ONE_OBJECT = variable("object", "Object", 'specdecode_slots{namespace="$namespace"}', "specdecode_name", several=False)
GATES = variable("gate", "Gate", f"specdecode_gate_margin{{{CHOSEN}}}", "gate")
LEGEND = "{{arm}} {{specdecode_revision}}"
PHASE = f"max by (phase) (specdecode_rollout_phase{{{CHOSEN}}})"
HELD = f"max by ({REVISION}, arm)"
VERDICTS = f"max by (run, specdecode_revision, outcome, reason) (specdecode_verdict_time_seconds{{{CHOSEN}}})"
SAYS = f"max by (gate, outcome, reason) (specdecode_gate_verdict{{{CHOSEN}}})"
PARTS = {
    "estimate": ("estimate", ()),
    "lower bound": ("interval", ('bound="lower"',)),
    "upper bound": ("interval", ('bound="upper"',)),
    "margin": ("margin", ()),
}
"""What a gate is shown by: the end of a metric's name, and matchers of its series."""
SHOWN = 'gate=~"$gate"'


def canary() -> Dashboard:
    """The dashboard."""
    return board(
        "canary",
        "specdecode / Canary",
        "Candidate and stable revision of one object over each other. What decides is the operator's judge, which "
        "compares pods in the same window and batch; these lines show what it looks at, over all pods of an arm.",
        [ONE_NAMESPACE, ONE_OBJECT, GATES, BATCHES],
        [
            states(
                "Phase",
                "What the rollout does. Nothing: none is under way.",
                (PHASE, "{{phase}}"),
                {"1": ("under way", "blue")},
            ),
            rows(
                "Engines",
                "What the pods of each revision attest. Two rows for one revision: its pods differ.",
                {
                    "specdecode_revision": "revision",
                    "arm": "arm",
                    "vllm_version": "engine",
                    "method": "method",
                    "device": "device",
                    "manifest_digest": "manifest",
                },
                (
                    _armed(
                        f"count by ({REVISION}, vllm_version, method, device, manifest_digest) "
                        f"(specdecode_engine_info{{{CHOSEN}}})"
                    ),
                    "pods",
                ),
            ),
            rows(
                "Gates",
                "What each gate says as of the newest look: candidate minus stable, the bounds of its interval, and "
                "the largest harm that may pass. Percents are 100 times natural logarithms.",
                {"gate": "gate", "outcome": "verdict", "reason": "reason"},
                *((f"{_gate(part)} * on (gate) group_left (outcome, reason) {SAYS}", part) for part in PARTS),
                units=dict.fromkeys(PARTS, "percentunit"),
            ),
            rows(
                "Verdicts",
                "How the object's last canaries ended, and how long ago. What people decided is among them.",
                {"specdecode_revision": "revision", "outcome": "verdict", "reason": "reason", "run": "run"},
                (f"time() - {VERDICTS}", "ago"),
                units={"ago": "s"},
            ),
            over_time(
                "Gate: $gate",
                "What decides: candidate minus stable, compared pod by pod, with its interval as of each look. A Pass "
                "needs the interval within the margin on the side that is harm, a Fail needs it beyond.",
                "percentunit",
                *((_gate(part, SHOWN), f"{{{{gate}}}}, {part}") for part in PARTS),
                (f"-{_gate('margin', SHOWN)}", "{{gate}}, margin below"),
                width=24,
                signed=True,
                each="gate",
            ),
            over_time(
                "Slots",
                "Replicas of each arm, and how many of them are ready.",
                "short",
                (f"{HELD} (specdecode_slots{{{CHOSEN}}})", f"{LEGEND}, held"),
                (f"{HELD} (specdecode_ready_slots{{{CHOSEN}}})", f"{LEGEND}, ready"),
            ),
            over_time(
                "Share of requests",
                "Each arm's weight in the route, and its share of the requests that finished. They should agree: else "
                "one arm's pods carry more than the other's.",
                "percentunit",
                (
                    f"{HELD} (specdecode_route_weight{{{CHOSEN}}}) / on () group_left "
                    f"sum({HELD} (specdecode_route_weight{{{CHOSEN}}}))",
                    f"{LEGEND}, weight",
                ),
                (
                    f"{_armed(f'{FINISHED}{{{CHOSEN}}}')} / on () group_left sum({FINISHED}{{{CHOSEN}}})",
                    f"{LEGEND}, observed",
                ),
            ),
            over_time(
                "Requests finished",
                "The sample size of acceptance: a gate needs some hundred from the candidate.",
                "reqps",
                (_armed(f"{FINISHED}{{{CHOSEN}}}"), LEGEND),
            ),
            _span("Propose, host", "propose_host", "Host time of one propose call."),
            _span("Drafter, device", "drafter_gpu", "The drafter's span on the device."),
            over_time(
                "Candidate against stable",
                "Quotient of the arms' mean spans; 1 is alike. Unlike a gate it takes no account of batches, trays and "
                "chance: choose a batch, and look at the probes before you believe it.",
                "none",
                *((_quotient(span), span) for span in ("propose_host", "drafter_gpu", "target_forward_gpu")),
            ),
            over_time(
                "Acceptance length",
                "Tokens that a step emits for a request, the target's own included.",
                TOKENS,
                (_armed(f"{ACCEPTANCE}{{{CHOSEN}}}"), LEGEND),
            ),
            bars(
                "Acceptance by position",
                "Share of drafts whose token at this position was accepted.",
                "percentunit",
                (
                    _armed(f"({ACCEPTED}{{{CHOSEN}}} > 0) / on ({REVISION}) group_left {DRAFTS}{{{CHOSEN}}}"),
                    "position {{position}}, {{arm}}",
                ),
                top=1,
            ),
            over_time(
                "Probes",
                "A fixed short workload that no change of the decode path touches: the control. If the arms differ "
                "here, they differ in machines or images.",
                "s",
                (_armed(f"{PROBE}{{{CHOSEN}}}"), "{{arm}} {{probe}}"),
            ),
        ],
        [
            _annotation("Phases", "blue", PHASE, "{{phase}}"),
            _annotation(
                "Verdicts", "purple", f"1000 * {VERDICTS}", "{{outcome}} ({{reason}}): {{specdecode_revision}}"
            ).use_value_for_time(True),
        ],
    )


def _annotation(name: str, colour: str, expr: str, title: str) -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name(name)
        .datasource(SOURCE)
        .enable(True)
        .icon_color(colour)
        .expr(expr)
        .title_format(title)
    )


def _gate(part: str, *matchers: str) -> str:
    """Of the one run that the operator reports."""
    name, bound = PARTS[part]
    return f"max by (gate) (specdecode_gate_{name}{{{','.join((CHOSEN, *bound, *matchers))}}})"


def _armed(series: str) -> str:
    """The same series with their revision's arm."""
    return f"{series} * on ({REVISION}) group_left (arm) {ARM}{{{CHOSEN}}}"


def _arm(span: str, arm: str) -> str:
    chosen = mean_span(span, f'{CHOSEN},batch=~"$batch"')
    return f'sum({chosen} and on ({REVISION}) {ARM}{{arm="{arm}"}})'


def _quotient(span: str) -> str:
    return f"{_arm(span, 'candidate')} / {_arm(span, 'stable')}"


def _span(title: str, span: str, text: str) -> timeseries.Panel:
    matchers = f'{CHOSEN},batch=~"$batch"'
    return over_time(title, text, "s", (_armed(f"({mean_span(span, matchers)})"), LEGEND))
