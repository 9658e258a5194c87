"""Each alert fires when it should, and not before: the rules file under `promtool test rules`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from livefleet import RULES
from prometheusprocess import built

from specdecode_dashboards.alerts import ALERTS

CHAT = {"namespace": "team", "specdecode_name": "chat"}
OLD = {**CHAT, "specdecode_revision": "old"}
POD = {**OLD, "pod": "chat-a"}
HOUR = 60
"""Minutes."""


def series(name: str, labels: Mapping[str, str], values: str) -> dict[str, str]:
    """A series with a sample a minute, as promtool writes them: `0+60x10` begins at 0 and grows ten times by 60."""
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def condition(kind: str, reason: str, values: str) -> dict[str, str]:
    return series("specdecode_condition", {**CHAT, "type": kind, "reason": reason}, values)


def phase(name: str, since: int = 0) -> list[dict[str, str]]:
    return [
        series("specdecode_rollout_phase", {**CHAT, "phase": name}, "1x600"),
        series("specdecode_rollout_phase_start_time_seconds", CHAT, f"{since}x600"),
    ]


def drafting(values: str, tokens: str) -> list[dict[str, str]]:
    """Drafts, and what they emitted."""
    return [
        series("specdecode_drafts_total", POD, values),
        series("specdecode_acceptance_length_count", POD, values),
        series("specdecode_acceptance_length_sum", POD, tokens),
    ]


def operator(age: str) -> list[dict[str, str]]:
    return [
        series("specdecode_operator_watch_age_seconds", {"kind": "Pod"}, age),
        series("specdecode_operator_queue_depth", {"kind": "SpecDecodeDeployment"}, "0x600"),
    ]


def engines(*digests: str) -> list[dict[str, str]]:
    return [
        series("specdecode_engine_info", {**OLD, "pod": f"chat-{number}", "manifest_digest": digest}, "1x600")
        for number, digest in enumerate(digests)
    ]


@dataclass(frozen=True)
class Case:
    """What is scraped, and what fires at a minute."""

    alert: str
    told: str
    scraped: list[dict[str, str]]
    minute: int
    fires: tuple[Mapping[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.alert} {'fires' if self.fires else 'is silent'} {self.told}"


CRASHED = {**CHAT, "reason": "EngineCrashed"}
CASES = [
    Case("RolloutHeld", "after ten minutes", [condition("Progressing", "EngineCrashed", "0x600")], 11, (CRASHED,)),
    Case("RolloutHeld", "before that", [condition("Progressing", "EngineCrashed", "0x600")], 9),
    Case("RolloutHeld", "while slots move", [condition("Progressing", "Replacing", "1x600")], 60),
    Case("RolloutHeld", "where nothing is known", [condition("Progressing", "Starting", "-1x600")], 60),
    Case("RolloutStuck", "after an hour in one phase", phase("Swapping"), 66, (CHAT,)),
    Case("RolloutStuck", "before that", phase("Swapping"), 59),
    Case("RolloutStuck", "when a new phase has begun", phase("Settling", since=20 * 60), 66),
    Case("RolloutStuck", "while a canary measures", phase("Measuring"), 300),
    Case("RolloutStuck", "while a verdict waits for minDuration", phase("Judging"), 300),
    Case(
        "RolloutStuck",
        "while somebody has paused it",
        [*phase("Swapping"), condition("Progressing", "Paused", "1x600")],
        300,
    ),
    Case(
        "RolloutStuck",
        "where it is held, of which another alert tells",
        [*phase("Swapping"), condition("Progressing", "EngineCrashed", "0x600")],
        300,
    ),
    Case("AcceptanceCollapsed", "where next to nothing is accepted", drafting("0+600x60", "0+630x60"), 30, (OLD,)),
    Case("AcceptanceCollapsed", "where drafts are accepted", drafting("0+600x60", "0+1500x60"), 30),
    Case("AcceptanceCollapsed", "where a drafter is simply not good", drafting("0+600x300", "0+900x300"), 300),
    Case(
        "AcceptanceCollapsed",
        "where half of what was accepted is lost",
        drafting("0+600x600", "0+1800x300 540000+900x300"),
        330,
        (OLD,),
    ),
    Case("AcceptanceCollapsed", "where a few drafts had bad luck", drafting("0+1x600", "0+1x600"), 30),
    Case(
        "AttestationMismatch",
        "where the operator has heard of other files",
        [condition("Attested", "AttestationDiffers", "0x600")],
        3,
        ({**CHAT, "reason": "AttestationDiffers"},),
    ),
    Case("AttestationMismatch", "where pods of one revision differ", engines("sha256:a", "sha256:b"), 3, (OLD,)),
    Case("AttestationMismatch", "where they are alike", engines("sha256:a", "sha256:a"), 60),
    Case("AttestationMismatch", "of a stock engine", [condition("Attested", "StockEngine", "-1x600")], 60),
    Case("TelemetryLost", "where a pod doesn't answer", [series("up", POD, "0x600")], 11, (POD,)),
    Case(
        "TelemetryLost",
        "where a pod drafts and no span is sampled",
        [
            *drafting("0+600x60", "0+1500x60"),
            series("specdecode_propose_host_seconds_count", POD, "7x60"),
            series("specdecode_optimization_info", {**POD, "optimization": "telemetry", "state": "active"}, "1x60"),
        ],
        20,
        (POD,),
    ),
    Case(
        "TelemetryLost",
        "where fewer pods are scraped than are Ready",
        [series("specdecode_ready_slots", {**OLD, "arm": "stable"}, "2x60"), series("up", POD, "1x60")],
        20,
        (CHAT,),
    ),
    Case(
        "TelemetryLost",
        "where no pod is scraped at all",
        [series("specdecode_ready_slots", {**OLD, "arm": "stable"}, "2x60")],
        20,
        (CHAT,),
    ),
    Case(
        "TelemetryLost",
        "where all is there",
        [
            series("specdecode_ready_slots", {**OLD, "arm": "stable"}, "1x60"),
            series("up", POD, "1x60"),
            *drafting("0+600x60", "0+1500x60"),
            series("specdecode_propose_host_seconds_count", POD, "0+75x60"),
        ],
        30,
    ),
    Case(
        "TelemetryLost",
        "where somebody has switched telemetry off",
        [
            *drafting("0+600x60", "0+1500x60"),
            series("specdecode_optimization_info", {**POD, "optimization": "telemetry", "state": "disabled"}, "1x60"),
        ],
        30,
    ),
    Case("OperatorStale", "when a watch has long been silent", operator("0+60x60"), 6, ({"kind": "Pod"},)),
    Case("OperatorStale", "of watches that live", operator("90x60"), 10),
    Case("OperatorStale", "where nobody scrapes the operator", [series("up", POD, "1x60")], 5, ({},)),
]


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([built("promtool"), *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_alert(case: Case, tmp_path: Path) -> None:
    name = f"Specdecode{case.alert}"
    severity = next(alert.severity for alert in ALERTS if alert.name == name)
    firing = {"alertname": name, "alertstate": "firing", "severity": severity}
    expected = [series("ALERTS", {**firing, **labels}, "") for labels in case.fires]
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": case.scraped,
                "promql_expr_test": [
                    {
                        "expr": f'ALERTS{{alertname="{name}",alertstate="firing"}}',
                        "eval_time": f"{case.minute}m",
                        "exp_samples": [{"labels": one["series"], "value": 1} for one in expected],
                    }
                ],
            }
        ],
    }
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(document))
    done = promtool("test", "rules", tmp_path / "case.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_and_to_keep_silent() -> None:
    names = {alert.name.removeprefix("Specdecode") for alert in ALERTS}
    assert {case.alert for case in CASES if case.fires} == names
    assert {case.alert for case in CASES if not case.fires} == names


def test_a_plain_prometheus_takes_the_rules_as_they_are() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr
