"""What somebody should be told, and when: each alert is about something that doesn't get better by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from specdecode_dashboards.records import ACCEPTANCE, DRAFTS, OBJECT, REVISION

HELD: Final = f'max by ({OBJECT}, reason) (specdecode_condition{{type="Progressing"}}) == 0'

STUCK: Final = f"""\
time() - max by ({OBJECT}) (specdecode_rollout_phase_start_time_seconds) > 3600
and on ({OBJECT})
specdecode_rollout_phase{{phase!~"Measuring|Judging|Ended"}} == 1
unless on ({OBJECT})
(specdecode_condition{{type="Progressing"}} == 0 or specdecode_condition{{type="Progressing", reason="Paused"}})"""

COLLAPSED: Final = f"""\
(
  {ACCEPTANCE} < 1.1
  or
  {ACCEPTANCE} - 1
  < on ({OBJECT}) group_left
  0.5 * (max by ({OBJECT}) (avg_over_time({ACCEPTANCE}[1d] offset 1h)) - 1)
)
and
{DRAFTS} > 0.1"""

MISMATCH: Final = f"""\
max by ({OBJECT}, reason) (specdecode_condition{{type="Attested"}}) == 0
or
count by ({REVISION}) (count by ({REVISION}, manifest_digest) (specdecode_engine_info)) > 1"""

LOST: Final = f"""\
max by ({REVISION}, pod) (up{{specdecode_name!=""}}) == 0
or
(
  sum by ({REVISION}, pod) (rate(specdecode_drafts_total[5m])) > 0
  unless
  sum by ({REVISION}, pod) (rate(specdecode_propose_host_seconds_count[5m])) > 0
  unless
  max by ({REVISION}, pod) (specdecode_optimization_info{{optimization="telemetry", state="disabled"}})
)
or
sum by ({OBJECT}) (specdecode_ready_slots)
>
(count by ({OBJECT}) (up{{specdecode_name!=""}} == 1) or 0 * sum by ({OBJECT}) (specdecode_ready_slots))"""

STALE: Final = """\
max by (kind) (specdecode_operator_watch_age_seconds) > 120
or
absent(specdecode_operator_queue_depth)"""

WHICH: Final = "{{ $labels.namespace }}/{{ $labels.specdecode_name }}"


@dataclass(frozen=True)
class Alert:
    """An alerting rule."""

    name: str
    expr: str
    wait: str
    """How long it has to be so."""
    severity: str
    summary: str
    description: str

    def rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.wait,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.description},
        }


ALERTS: Final = (
    Alert(
        "SpecdecodeRolloutHeld",
        HELD,
        "10m",
        "warning",
        f"{WHICH} can't go on: {{{{ $labels.reason }}}}",
        "Progressing has been False for 10 minutes, so the spec isn't what serves. The stable revision goes on "
        "serving. `kubectl describe sdd` says what is in the way and what would help.",
    ),
    Alert(
        "SpecdecodeRolloutStuck",
        STUCK,
        "5m",
        "warning",
        f"{WHICH} has been in one phase of its rollout for {{{{ $value | humanizeDuration }}}}",
        "Nothing is said to be wrong, yet the phase has lasted for more than an hour; a large model's start takes 45 "
        "minutes at most. `kubectl describe sdd` says what is awaited.",
    ),
    Alert(
        "SpecdecodeAcceptanceCollapsed",
        COLLAPSED,
        "10m",
        "critical",
        f"{WHICH} emits {{{{ $value | humanize }}}} tokens a draft",
        "Revision {{ $labels.specdecode_revision }} accepts next to nothing, or less than half of what the object's "
        "drafts had accepted the day before: each step pays for a draft that is thrown away.",
    ),
    Alert(
        "SpecdecodeAttestationMismatch",
        MISMATCH,
        "1m",
        "critical",
        f"{WHICH}: engines don't run what their revision says",
        "A pod attests other files, or pods of one revision attest different manifests. The operator takes such a pod "
        "out of its Services; `kubectl describe sdd` names it and what differs.",
    ),
    Alert(
        "SpecdecodeTelemetryLost",
        LOST,
        "10m",
        "warning",
        f"{WHICH}{{{{ with $labels.pod }}}} ({{{{ . }}}}){{{{ end }}}} is served without telemetry",
        "A pod doesn't answer its scrapes, or drafts without a sample of a span, or fewer pods are scraped than are "
        "Ready. No canary can be judged meanwhile.",
    ),
    Alert(
        "SpecdecodeOperatorStale",
        STALE,
        "2m",
        "critical",
        "The operator no longer sees its cluster",
        "A watch has been silent for longer than two minutes though it asks for bookmarks, or nobody scrapes the "
        "operator. Engines serve on; changes of objects wait.",
    ),
)  # fmt: skip
