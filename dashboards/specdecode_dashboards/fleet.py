"""Fleet: is everything that should serve serving, and on what?"""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from specdecode_dashboards.panels import (
    NAMESPACE,
    OBJECTS,
    OF_OBJECT,
    TOKENS,
    TOKENS_A_SECOND,
    board,
    now,
    over_time,
    rows,
    states,
)
from specdecode_dashboards.records import ACCEPTANCE, DRAFTS, EMITTED, OBJECT, REVISION

LEGEND = "{{namespace}}/{{specdecode_name}}"
OBJECT_COLUMNS = {"namespace": "namespace", "specdecode_name": "object"}
DECODE = "/d/specdecode-decode-path?var-namespace=${__data.fields.namespace}&var-object=${__data.fields.object}"
CANARY = "/d/specdecode-canary?var-namespace=${__data.fields.namespace}&var-object=${__data.fields.object}"

READY = f'max by ({OBJECT}) (specdecode_condition{{type="Ready",{OF_OBJECT}}})'
HELD = f"max by ({REVISION}, arm)"


def fleet() -> Dashboard:
    """The dashboard."""
    return board(
        "fleet",
        "specdecode / Fleet",
        "All SpecDecodeDeployments: their health, revisions, GPUs and throughput.",
        [NAMESPACE, OBJECTS],
        [
            now("Objects", "SpecDecodeDeployments that the operator has planned.", "short", f"count({READY})"),
            now(
                "Not Ready",
                "Objects with fewer slots ready than they have to keep. The table below says why.",
                "short",
                f"count({READY} < 1) or vector(0)",
                limit=1,
            ),
            now(
                "Rollouts",
                "Objects in which a revision is taking slots now.",
                "short",
                f"count(max by ({OBJECT}) (specdecode_rollout_phase{{{OF_OBJECT}}})) or vector(0)",
            ),
            now(
                "GPUs",
                "GPUs that the slots hold, those of a pod that still starts included.",
                "short",
                f"sum({HELD} (specdecode_gpus{{{OF_OBJECT}}}))",
            ),
            now("Output", "Tokens that all engines emit.", TOKENS_A_SECOND, f"sum({EMITTED}{{{OF_OBJECT}}})"),
            now(
                "Requests",
                "Requests that the engines are working on.",
                "short",
                f"sum(vllm:num_requests_running{{{OF_OBJECT}}})",
            ),
            states(
                "Ready",
                "Whether enough slots of each object are ready to serve. Yellow: the operator doesn't know.",
                (READY, LEGEND),
                {"1": ("Ready", "green"), "0": ("Not ready", "red"), "-1": ("Unknown", "yellow")},
            ),
            rows(
                "What isn't as it should be",
                "Conditions that aren't True, with the reason that `kubectl describe sdd` spells out.",
                {**OBJECT_COLUMNS, "type": "condition", "reason": "reason"},
                (f"max by ({OBJECT}, type, reason) (specdecode_condition{{{OF_OBJECT}}}) < 1", ""),
                links={"object": CANARY},
            ),
            rows(
                "Revisions",
                "Revisions that hold slots: how many, how many are ready, their weight in the route, and their GPUs.",
                {**OBJECT_COLUMNS, "specdecode_revision": "revision", "arm": "arm"},
                (f"{HELD} (specdecode_slots{{{OF_OBJECT}}})", "slots"),
                (f"{HELD} (specdecode_ready_slots{{{OF_OBJECT}}})", "ready"),
                (f"{HELD} (specdecode_route_weight{{{OF_OBJECT}}})", "weight"),
                (f"{HELD} (specdecode_gpus{{{OF_OBJECT}}})", "GPUs"),
                links={"object": DECODE},
                width=24,
            ),
            over_time(
                "Output by object",
                "Tokens that the engines of an object emit each second.",
                TOKENS_A_SECOND,
                (f"sum by ({OBJECT}) ({EMITTED}{{{OF_OBJECT}}})", LEGEND),
            ),
            over_time(
                "Acceptance length",
                "Tokens that a step emits for a request, the target's own included, over all revisions of an object. "
                "1: no draft is accepted.",
                TOKENS,
                (
                    f"sum by ({OBJECT}) ({ACCEPTANCE}{{{OF_OBJECT}}} * {DRAFTS}{{{OF_OBJECT}}}) / "
                    f"sum by ({OBJECT}) ({DRAFTS}{{{OF_OBJECT}}})",
                    LEGEND,
                ),
            ),
            over_time(
                "Requests by object",
                "Requests that engines work on, and those that wait for room in a batch.",
                "short",
                (
                    f"sum by ({OBJECT}) (vllm:num_requests_running{{{OF_OBJECT}}})",
                    "{{namespace}}/{{specdecode_name}} running",
                ),
                (
                    f"sum by ({OBJECT}) (vllm:num_requests_waiting{{{OF_OBJECT}}})",
                    "{{namespace}}/{{specdecode_name}} waiting",
                ),
            ),
        ],
    )
