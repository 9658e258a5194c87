"""What the planner refuses of a canary, each with its field's path and what would be accepted."""

from __future__ import annotations

from typing import Any

import pytest
from canaries import GATES, canary

from specdecode_operator.api.profiles import resolve
from specdecode_operator.plan.validate import Allowed, field_errors

GATE = GATES[0]


def errors(path: str, value: Any) -> list[str]:
    spec = canary().set(path, value).spec()
    return [str(each) for each in field_errors(spec, resolve(spec.accelerator), Allowed())]


@pytest.mark.parametrize(
    ("path", "value", "at", "says"),
    [
        ("spec.rollout.steps", [], "spec.rollout.steps", "strategy to Replace"),
        ("spec.gates", [], "spec.gates", "strategy to Replace"),
        ("spec.metrics", {}, "spec.metrics.backend", "metricsBackends"),
        ("spec.rollout.alpha", "30%", "spec.rollout.alpha", "at most 20%"),
        ("spec.rollout.power", "10%", "spec.rollout.power", "at least 50%"),
        ("spec.metrics.window", "10s", "spec.metrics.window", "20 s (2 scrapes)"),
        (
            "spec.metrics",
            {"backend": "main", "scrapeInterval": "5s", "window": "15s"},
            "spec.metrics.window",
            "20 s (gate drafter on a time: its control is a probe that runs every 5 s)",
        ),
        ("spec.gates", [{**GATE, "metric": "acceptanceLength", "statistic": "p99"}], "spec.gates[0].statistic", "mean"),
        ("spec.rollout.steps", [{"slots": 1, "gates": ["other"]}], "spec.rollout.steps[0].gates", "drafter"),
        (
            "spec.rollout.steps",
            [{"slots": 1, "minDuration": "1h", "maxDuration": "30m"}],
            "spec.rollout.steps[0].minDuration",
            "at most maxDuration (30m)",
        ),
        (
            "spec.rollout.steps",
            [{"slots": 1, "minDuration": "1m", "maxDuration": "2m"}],
            "spec.rollout.steps[0].maxDuration",
            "10 to 720 windows",
        ),
        (
            "spec.rollout.steps",
            [{"slots": 1, "minDuration": "1m"}, {"slots": 2}],
            "spec.rollout.steps[0].minDuration",
            "300 s",
        ),
        (
            "spec.rollout.steps",
            [{"slots": 1, "maxDuration": "4h", "onInconclusive": "Extend"}],
            "spec.rollout.steps[0].maxDuration",
            "10 to 360 windows",
        ),
    ],
)
def test_a_mistake_is_told_with_its_path_and_what_is_allowed(path: str, value: Any, at: str, says: str) -> None:
    found = errors(path, value)
    assert len(found) == 1
    assert found[0].startswith(f"{at}: found ")
    assert says in found[0]


def test_a_last_step_that_leaves_a_gate_out_is_refused() -> None:
    gates = [GATE, {**GATE, "name": "host", "metric": "proposeHostTime"}]
    spec = canary().set("spec.gates", gates).set("spec.rollout.steps", [{"slots": 1, "gates": ["host"]}]).spec()
    (found,) = field_errors(spec, resolve(spec.accelerator), Allowed())
    assert found.path == "spec.rollout.steps[0].gates"


def test_all_mistakes_are_told_at_once() -> None:
    spec = canary().set("spec.rollout", {"strategy": "Canary", "alpha": "50%", "power": "1%"}).spec()
    assert len(field_errors(spec, resolve(spec.accelerator), Allowed())) == 3


def test_nothing_is_asked_of_what_is_no_canary() -> None:
    spec = canary().set("spec.rollout", {"alpha": "50%"}).without("spec.gates").spec()
    assert field_errors(spec, resolve(spec.accelerator), Allowed()) == ()
