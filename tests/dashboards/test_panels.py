"""Each panel shows something: its queries are asked of a real Prometheus that has scraped the real exposition."""

from __future__ import annotations

import math
import re

import pytest
from committed import BOARDS, Target, board, sent, targets, variables
from livefleet import DRAFTED, NAMESPACE, SLOWER, STATUSES
from prometheusprocess import Prometheus

from specdecode_dashboards import records

TARGETS = list(targets())
CHAT = {"namespace": NAMESPACE, "object": "chat", "revision": ".*", "batch": ".*", "gate": ".*"}
ALL = {"namespace": ".*", "object": ".*", "revision": ".*", "batch": ".*"}


def answer(prometheus: Prometheus, target: Target) -> list[tuple[dict[str, str], float]]:
    chosen = CHAT if target.board == "canary" else ALL
    found = prometheus.query(sent(target.expr, chosen))
    return [(row["metric"], float(row["value"][1])) for row in found]


def of(board: str, panel: str, ref: str = "A") -> Target:
    (found,) = [one for one in TARGETS if (one.board, one.panel, one.ref) == (board, panel, ref)]
    return found


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_panel_has_data(prometheus: Prometheus, target: Target) -> None:
    rows = answer(prometheus, target)
    assert any(math.isfinite(value) for _, value in rows), f"{target.expr}: {rows}"


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_a_legend_names_labels_that_the_series_have(prometheus: Prometheus, target: Target) -> None:
    named = set(re.findall(r"\{\{(\w+)\}\}", target.legend))
    for labels, _ in answer(prometheus, target):
        assert named <= set(labels)
    shown = [tuple(sorted((name, labels[name]) for name in named)) for labels, _ in answer(prometheus, target)]
    if target.legend and named:
        assert len(shown) == len(set(shown)), "two lines of one name"


@pytest.mark.parametrize("board", BOARDS)
def test_every_variable_has_a_choice(prometheus: Prometheus, board: str) -> None:
    for name, query in variables(board).items():
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
        assert found, f"{name}: {query}"
        series, label = found.groups()
        assert prometheus.query(f"count by ({label}) ({sent(series, CHAT)})"), query


def test_the_fleet_counts_objects_rollouts_and_gpus_as_the_operator_reports_them(prometheus: Prometheus) -> None:
    held = [each for status in STATUSES.values() for each in (status.stable, status.candidate) if each]
    shown = {
        panel: answer(prometheus, of("fleet", panel))[0][1] for panel in ("Objects", "Not Ready", "Rollouts", "GPUs")
    }
    assert shown == {
        "Objects": len(STATUSES),
        "Not Ready": 0,
        "Rollouts": sum(status.run is not None for status in STATUSES.values()),
        "GPUs": 4 * sum(each.slots for each in held),
    }


def test_what_stands_in_the_way_is_listed_with_its_reason(prometheus: Prometheus) -> None:
    rows = answer(prometheus, of("fleet", "What isn't as it should be"))
    assert ("code", "Progressing", "ChildRefused") in {
        (labels["specdecode_name"], labels["type"], labels["reason"]) for labels, _ in rows
    }


def test_the_arms_stand_beside_each_other_and_the_slower_one_shows(prometheus: Prometheus) -> None:
    arms = {labels["arm"]: value for labels, value in answer(prometheus, of("canary", "Propose, host"))}
    assert set(arms) == {"stable", "candidate"}
    ((_, quotient),) = answer(prometheus, of("canary", "Candidate against stable"))
    assert quotient == pytest.approx(arms["candidate"] / arms["stable"], rel=0.5)
    assert quotient > math.sqrt(SLOWER)


def test_a_gate_s_interval_holds_its_estimate_and_the_margin_is_on_both_sides(prometheus: Prometheus) -> None:
    gate = [
        {labels["gate"]: value for labels, value in answer(prometheus, of("canary", "Gate: $gate", ref))}
        for ref in "ABCDE"
    ]
    assert set(gate[0]) == {"drafter", "acceptance"}
    for name in gate[0]:
        estimate, lower, upper, margin, below = (part[name] for part in gate)
        assert lower < estimate < upper
        assert (margin, below) == (abs(margin), -margin)


def test_the_last_verdict_is_listed_with_its_age_and_can_be_an_annotation(prometheus: Prometheus) -> None:
    ((labels, ago),) = answer(prometheus, of("canary", "Verdicts"))
    assert (labels["outcome"], labels["reason"]) == ("Fail", "BeyondMargin")
    (verdict,) = STATUSES["chat"].verdicts or ()
    assert 0 < ago < 86400
    (asked,) = [each for each in board("canary")["annotations"]["list"] if each["name"] == "Verdicts"]
    ((_, milliseconds),) = [
        (row["metric"], float(row["value"][1])) for row in prometheus.query(sent(asked["expr"], CHAT))
    ]
    assert milliseconds == 1000 * verdict.time.timestamp()
    assert asked["useValueForTime"] is True


def test_weights_and_observed_shares_add_up(prometheus: Prometheus) -> None:
    for ref in ("A", "B"):
        rows = answer(prometheus, of("canary", "Share of requests", ref))
        assert len(rows) == 2
        assert sum(value for _, value in rows) == pytest.approx(1)


def test_a_later_position_is_accepted_no_more_often_than_an_earlier_one(prometheus: Prometheus) -> None:
    rows = answer(prometheus, of("decode-path", "Acceptance by position"))
    shares = [value for _, value in sorted(rows, key=lambda row: int(row[0]["position"]))]
    assert 1 <= len(shares) <= DRAFTED
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[0] <= 1


def test_an_optimization_that_is_switched_off_is_shown_so(prometheus: Prometheus) -> None:
    rows = answer(prometheus, of("decode-path", "Optimizations"))
    candidate = STATUSES["chat"].candidate
    assert candidate is not None
    states = {
        labels["optimization"]: labels["state"]
        for labels, _ in rows
        if labels["specdecode_revision"] == candidate.revision
    }
    assert states["uniform-mamba-metadata"] == "disabled"
    assert states["telemetry"] == "active"


def test_every_rule_is_recorded_and_used(prometheus: Prometheus) -> None:
    from specdecode_dashboards.alerts import ALERTS

    asked = " ".join([one.expr for one in TARGETS] + [alert.expr for alert in ALERTS])
    for record in records.records():
        assert prometheus.query(record.name), record.name
        assert record.name in asked, f"{record.name} is recorded for nobody"
