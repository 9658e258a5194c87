"""`kubectl-specdecode attribute`, with the real planner behind it: a canary for each switch, and none takes over."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from builders import OTHER_IMAGE
from canaries import CanaryFleet, canary
from fleet import merge

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.cli import attribute, kubectl, walk
from specdecode_operator.cli import main as cli
from specdecode_operator.plan.canary.facts import Look, Looked

GATES = [
    {"name": "propose", "metric": "proposeHostTime", "margin": "1%"},
    {"name": "drafter", "metric": "drafterGpuSpan", "margin": "2%"},
]
STEP = {"slots": 1, "minDuration": "5m", "maxDuration": "5m"}
WALKED = ["mtp-fused-metadata", "splitkv-decode", "skip-draft-rebuild"]
UNSEEN = ["prefix-cache-tail", "telemetry", "uniform-mamba-metadata"]


@dataclass
class SwitchedFleet(CanaryFleet):
    """Looks say of each switch what is given for it, and hold a gate's estimate."""

    truth: dict[str, str] = field(default_factory=dict)
    hooks: list[Callable[[], None]] = field(default_factory=list)
    """What happens while the command sleeps, one after the other; then only time passes."""
    down: int = 0
    """Calls that the API server doesn't answer."""

    def sleep(self, _: float) -> None:
        if self.hooks:
            self.hooks.pop(0)()
        self.turn()

    def off(self) -> str:
        return "".join(walk.switched_off(self.obj))

    def _look(self, want: Look) -> Looked:
        guards = want.plan.role == "guard"
        self.sees = "Measuring" if guards else self.truth.get(self.off(), "Measuring")
        gate = {"gate": "propose", "estimate": 0.03, "interval": [0.02, 0.04], "margin": 0.01}
        line = gzip.compress(json.dumps({"gates": [gate]}).encode())
        return replace(super()._look(want), looks=line)

    def call(self, _: argparse.Namespace, *words: str) -> str:
        """kubectl, as far as the command needs it."""
        if self.down:
            self.down -= 1
            raise InvalidObject([FieldError("kubectl", "the connection is refused", "an answer", "wait")])
        if words[:2] == ("get", "configmap"):
            return json.dumps(self.children[("ConfigMap", words[2])])
        if words[0] == "get":
            return json.dumps(self.obj)
        if words[0] == "auth":
            return json.dumps({"status": {"userInfo": {"username": "alice"}}})
        if words[0] == "annotate":
            key, _, text = words[-1].partition("=")
            self.obj["metadata"].setdefault("annotations", {})[key] = text
        if words[0] == "patch":
            self.patch(json.loads(words[-1]))
        return ""

    def patch(self, patch: dict[str, Any]) -> None:
        spec = json.dumps(self.obj["spec"], sort_keys=True)
        merge(self.obj, patch)
        self.obj["metadata"]["generation"] += json.dumps(self.obj["spec"], sort_keys=True) != spec


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[SwitchedFleet]:
    """Four slots at rest, whose pods start within a minute or never, and a command that sees them."""
    made = canary(4, [STEP]).set("spec.engine.version", "0.30.0").set("spec.gates", GATES)
    made = made.on("cpu", probes={"startup": {"periodSeconds": 10, "failureThreshold": 6}})
    fleet = SwitchedFleet.of(made)
    assert isinstance(fleet, SwitchedFleet)
    fleet.settle()
    monkeypatch.setattr(kubectl, "call", fleet.call)
    monkeypatch.setattr(attribute.time, "sleep", fleet.sleep)
    monkeypatch.setattr(attribute.time, "monotonic", lambda: fleet.now.timestamp())
    yield fleet
    assert fleet.off() == "", "however it ends, the switches are as they were"


def attributed(fleet: SwitchedFleet) -> dict[str, Any] | None:
    text = (fleet.obj["metadata"].get("annotations") or {}).get(names.ANNOTATION_ATTRIBUTION)
    return json.loads(text) if text else None


def test_without_yes_it_says_what_it_would_walk_and_how_long_that_takes(
    fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.dumps(fleet.obj)
    assert cli.main(["attribute", "demo"]) == 0
    told = capsys.readouterr().out
    assert f"against revision {fleet.stable()}: {', '.join(WALKED)}." in told
    assert f"no gate reads what they touch: {', '.join(UNSEEN)}." in told
    # 10 windows of 30 s after 20 of settling and with 4 of patience; one pod of a minute and 5 s, there and back.
    assert "settled and measured for at most 17 min, and its pods start and come back within 2 min" in told
    assert "all of it takes at most 58 min" in told
    assert "Nothing was begun" in told
    assert json.dumps(fleet.obj) == before


def test_each_switch_has_a_canary_of_its_own_and_none_takes_over(
    fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    stable = fleet.stable()
    fleet.truth = dict(zip(WALKED, ("Fail(BeyondMargin)", "Pass(WithinMargin)", "Measuring"), strict=True))
    assert cli.main(["attribute", "demo", "--yes", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["optimization"], each["outcome"], each["reason"]) for each in found] == [
        ("mtp-fused-metadata", "Fail", "BeyondMargin"),
        ("splitkv-decode", "Pass", "WithinMargin"),
        ("skip-draft-rebuild", "Inconclusive", "Undecided"),
    ]
    assert len({each["run"] for each in found}) == 3
    assert found[1]["gates"] == [{"gate": "propose", "estimate": 0.03, "interval": [0.02, 0.04], "margin": 0.01}]
    assert fleet.passed, "one has passed"
    paused = [each for each in fleet.events if "asked to pause run" in each]
    assert len(paused) == 3, "none could have taken over, had the command been killed"
    fleet.rest()
    assert fleet.stable() == stable
    assert fleet.obj["status"]["stable"]["slots"] == 4
    assert attributed(fleet) is None


def test_interrupted_it_puts_the_switch_back_and_goes_on_later(
    fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.truth = dict.fromkeys(WALKED, "Fail(BeyondMargin)")

    def interrupt() -> None:
        if (attributed(fleet) or {}).get("done") and fleet.off():
            raise KeyboardInterrupt
        fleet.hooks.append(interrupt)

    fleet.hooks.append(interrupt)
    assert cli.main(["attribute", "demo", "--yes"]) == 20
    assert "Interrupted at splitkv-decode" in capsys.readouterr().err
    assert fleet.off() == ""
    assert cli.main(["attribute", "demo", "--yes"]) == 0
    told, said = capsys.readouterr()
    assert "Goes on: mtp-fused-metadata done." in said
    assert [line.split(":")[0] for line in told.splitlines() if ": Fail (BeyondMargin)" in line] == WALKED
    assert "  propose: +3.00% (+2.00% to +4.00%), margin 1%" in told


def test_a_second_walk_retries_what_failed_in_the_first(fleet: SwitchedFleet) -> None:
    fleet.patch({"spec": {"rollout": {"steps": [{"slots": 1, "minDuration": "5m"}, STEP]}}})
    fleet.rest()
    fleet.truth = {"splitkv-decode": "Fail(BeyondMargin)"}
    asked = ["attribute", "demo", "--yes", "--optimization", "splitkv-decode"]
    assert cli.main(asked) == 0
    fleet.rest()
    assert [each["run"] for each in fleet.obj["status"]["rejected"]]
    assert cli.main(asked) == 0
    fleet.rest()
    runs = [each["run"] for each in fleet.obj["status"]["verdicts"]]
    assert len(runs) == len(set(runs)) == 2


def test_an_api_server_that_is_away_for_a_while_is_waited_for(fleet: SwitchedFleet) -> None:
    fleet.truth = {"splitkv-decode": "Fail(BeyondMargin)"}
    fleet.hooks = [lambda: setattr(fleet, "down", 3)]
    assert cli.main(["attribute", "demo", "--yes", "--optimization", "splitkv-decode"]) == 0


def test_a_switch_that_can_not_be_put_back_is_told(fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        fleet.down = 1
        raise KeyboardInterrupt

    fleet.hooks = [interrupt]
    assert cli.main(["attribute", "demo", "--yes"]) == 20
    assert "could NOT be put back" in capsys.readouterr().err
    fleet.patch({"spec": {"engine": {"optimizations": {"disable": []}}}})


def test_a_run_that_can_not_be_begun_stops_the_walk(fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.patch({"spec": {"replicas": 2}})
    fleet.rest()
    assert cli.main(["attribute", "demo", "--yes"]) == 30
    assert "Stopped at mtp-fused-metadata: " in capsys.readouterr().err


def test_one_that_never_gets_ready_is_bounded(fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.backend = "BackendDown"
    assert cli.main(["attribute", "demo", "--yes"]) == 20
    assert "Stopped at mtp-fused-metadata: " in capsys.readouterr().err


def test_somebody_s_change_meanwhile_stops_it_and_is_left_as_it_is(
    fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.hooks = [lambda: fleet.patch({"spec": {"engine": {"image": OTHER_IMAGE}}})]
    assert cli.main(["attribute", "demo", "--yes"]) == 30
    assert "somebody has changed the spec meanwhile" in capsys.readouterr().err
    assert fleet.obj["spec"]["engine"]["image"] == OTHER_IMAGE


def test_somebody_s_switch_meanwhile_stops_it_and_is_left_as_it_is(
    fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.hooks = [lambda: fleet.patch({"spec": {"engine": {"optimizations": {"disable": ["telemetry"]}}}})]
    assert cli.main(["attribute", "demo", "--yes"]) == 30
    assert "somebody has switched off telemetry meanwhile" in capsys.readouterr().err
    assert fleet.off() == "telemetry"
    assert cli.main(["attribute", "demo", "--yes", "--anew"]) == 64, "it isn't at rest"
    fleet.patch({"spec": {"engine": {"optimizations": {"disable": []}}}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"spec": {"rollout": {"strategy": "Replace"}}}, "spec.rollout.strategy: found Replace; allowed: Canary"),
        ({"spec": {"gates": [{"name": "a", "metric": "acceptanceLength", "margin": "5%"}]}}, "allowed: prefix-cache-"),
        ({"spec": {"gates": []}}, "spec.gates: found none"),
        ({"metadata": {"generation": 9}}, "status: found a revision under way"),
    ],
)
def test_what_can_not_be_walked_is_64(
    fleet: SwitchedFleet, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    fleet.patch(change)
    if "metadata" not in change:
        fleet.rest()
    assert cli.main(["attribute", "demo", "--yes", "--optimization", "splitkv-decode"]) == 64
    assert words in capsys.readouterr().err


def test_an_annotation_of_somebody_s_own_is_no_walk(fleet: SwitchedFleet) -> None:
    for text in ("", "{", "[]", '{"todo": 1}'):
        fleet.patch({"metadata": {"annotations": {names.ANNOTATION_ATTRIBUTION: text}}})
        assert walk.read(fleet.obj) is None
