"""What `kubectl-specdecode explain` says of a canary in each of its states."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from canaries import CanaryFleet, changed

from specdecode_operator.api import names
from specdecode_operator.cli.explain import lines


def explained(fleet: CanaryFleet) -> str:
    run = fleet.obj["status"].get("run") or {}
    record: dict[str, Any] = fleet.children.get(("ConfigMap", names.run_record("demo", run.get("id") or "")), {})
    return "\n".join(lines(fleet.obj, record))


def test_before_a_run_it_says_what_is_waited_for() -> None:
    fleet = changed()
    fleet.backend = "BackendDown"
    fleet.turn()
    told = explained(fleet)
    assert "MetricsAvailable: Nobody answers." in told
    assert "Next: the plan is registered once" in told
    assert "You can take the change back" in told


def test_in_a_step_it_says_when_that_ends() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    told = explained(fleet)
    closes = datetime.fromtimestamp(fleet.record["steps"][-1]["start"] + 10 * 30, UTC)
    assert f"closes at {closes:%H:%M:%S} UTC" in told
    assert "You can pause, promote or abort it." in told


def test_a_refused_request_and_a_rejected_revision_are_told() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.ask("promote", run="another")
    fleet.turn()
    assert "The request to promote was refused. runID: found another" in explained(fleet)
    fleet.sees = "Fail(BeyondMargin)"
    fleet.until("Ended")
    fleet.rest()
    assert "You can retry its run, or change the spec." in explained(fleet)


def test_an_object_that_nobody_has_seen_yet_is_told_so() -> None:
    assert "\n".join(lines({"metadata": {"name": "demo"}}, {})) == "The operator has yet to see it."
