"""A canary with the real statistics: pods whose true difference is known, from registration to the end."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from builders import OTHER_IMAGE
from canaries import CanaryFleet, canary
from fleet import image_of, is_ready
from judged import PROBE, SPAN, row

from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.look import look, unpacked
from specdecode_operator.gates.plan import read_plan
from specdecode_operator.gates.register import HISTORY_WINDOWS, Unfit, register
from specdecode_operator.gates.samples import Sample
from specdecode_operator.plan.canary.facts import Answer, Look, Looked, Refused, Register, Want
from specdecode_operator.plan.canary.runs import runs_of
from specdecode_operator.plan.observe import moment
from specdecode_operator.report.case import case_of
from specdecode_operator.report.page import page

WINDOW = 30.0


@dataclass
class JudgedFleet(CanaryFleet):
    """Its pods are measured, and what they show is judged."""

    effect: float = 0.0
    """Of the new image, as a natural logarithm."""
    pod_sd: float = 0.001

    def _answer(self, want: Want) -> Answer:
        if isinstance(want, Register):
            return self._registered(want)
        return self._looked(want)

    def _registered(self, want: Register) -> Answer:
        end = (self.now.timestamp() - 20) // WINDOW * WINDOW
        start = end - HISTORY_WINDOWS * WINDOW
        try:
            history = list(self.measured(start, HISTORY_WINDOWS))
            return register(want.asked, history, start=start, at=end)
        except Unfit as error:
            return Refused(error.reason, str(error))

    def _looked(self, want: Look) -> Answer:
        start = want.plan.windows.start + want.recorded * WINDOW
        new = self.measured(start, want.through - want.recorded)
        found = look(want.plan, new, through=want.through, cohort=want.cohort, samples=want.samples, looks=want.looks)
        said = found.verdict
        return Looked(
            want.run, want.step, want.through, said.outcome.value, said.reason.value, said.sentence, said.decided_at,
            found.samples, found.looks,
        )  # fmt: skip

    def measured(self, start: float, windows: int) -> Iterator[Sample]:
        """What the pods that serve now have shown."""
        for pod in self.pods.values():
            if is_ready(pod):
                yield from self._of_pod(pod, start, windows)

    def _of_pod(self, pod: dict[str, Any], start: float, windows: int) -> Iterator[Sample]:
        uid = pod["metadata"]["uid"]
        own = random.Random(f"pod {uid}").gauss(0, self.pod_sd)
        created = moment(pod["metadata"]["creationTimestamp"])
        assert created is not None
        worse = self.effect if image_of(pod) == OTHER_IMAGE else 0.0
        for window in range(windows):
            begin = start + window * WINDOW
            if begin < created.timestamp():
                continue
            rng = random.Random(f"{uid} {begin}")
            common = {
                "window_start": begin, "window_end": begin + WINDOW, "revision": pod["metadata"]["labels"][
                    "specdecode.io/revision"], "pod_uid": uid, "node": pod["spec"]["nodeName"],
                "start_time": created.timestamp(), "requests": 30.0,
            }  # fmt: skip
            for batch, base in (("4", 1e-3), ("8", 2e-3)):
                level = own + worse + rng.gauss(0, 0.003)
                yield row(common, SPAN, 400, base * math.exp(level), batch, "decode")
            yield row(common, PROBE, 6, 5e-4 * math.exp(rng.gauss(0, 0.003)))


STEPS = [{"slots": 1, "minDuration": "5m"}, {"slots": 4, "minDuration": "5m", "maxDuration": "10m"}]


def judged(effect: float, steps: list[dict[str, Any]] | None = None) -> JudgedFleet:
    """Sixteen slots at rest with a history, asked for another image."""
    fleet = JudgedFleet.of(canary(16, steps or STEPS))
    assert isinstance(fleet, JudgedFleet)
    fleet.effect = effect
    fleet.settle()
    fleet.pass_time(2 * HISTORY_WINDOWS * WINDOW)
    fleet.edit(lambda it: it.image(OTHER_IMAGE))
    return fleet


def test_a_revision_that_is_no_different_is_promoted() -> None:
    fleet = judged(0.0)
    fleet.until("Promoting")
    fleet.rest()
    assert fleet.slots() == 16
    assert fleet.obj["status"]["verdicts"][-1]["reason"] == "WithinMargin"


def test_a_regression_of_twice_the_margin_is_rejected() -> None:
    fleet = judged(0.04)
    fleet.until("Ended")
    fleet.rest()
    assert fleet.slots() == 0
    assert fleet.obj["status"]["rejected"][-1]["reason"] in ("BeyondMargin", "BucketBeyondMargin")


def test_a_doubled_span_is_stopped_in_the_first_step_within_three_windows() -> None:
    fleet = judged(math.log(2))
    fleet.until("Measuring", "1/2")
    begun = fleet.now
    fleet.until("Ended")
    verdict = fleet.obj["status"]["verdicts"][-1]
    assert (verdict["step"], verdict["reason"]) == ("1/2", "Catastrophe")
    assert (fleet.now - begun).total_seconds() <= 5 * WINDOW + 60


def test_the_record_alone_gives_the_same_verdict_again() -> None:
    fleet = judged(0.04)
    fleet.until("Ended")
    maps = tuple(item for (kind, _), item in sorted(fleet.children.items()) if kind == "ConfigMap")
    (run,) = runs_of("demo", maps)
    step = run.record.step + 1
    plan = read_plan(run.files[f"plan-{step}.json"])
    again = judge(plan, unpacked(run.packed[f"samples-{step}.jsonl.gz"]))
    assert run.record.now is not None
    assert run.record.now.verdict is not None
    assert again.outcome == run.record.now.verdict.outcome
    assert again.sentence == run.record.now.verdict.sentence
    case = case_of(maps)
    assert [(each.as_registered, each.confirmed) for each in case.steps] == [(True, True)] * step
    assert page(case).count("Checked:") == 1 + 2 * step


def test_a_plan_that_could_decide_nothing_is_not_begun() -> None:
    fleet = judged(0.0, [{"slots": 1, "minDuration": "5m", "maxDuration": "10m"}])
    fleet.pod_sd = 0.02
    for _ in range(4):
        fleet.turn()
    assert fleet.slots() == 0
    said = fleet.condition("Progressing")
    assert said["reason"] == "CannotBeJudged"
    assert "Underpowered" in said["message"]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer windows to settle: nothing here has to warm up."""
    monkeypatch.setattr("specdecode_operator.gates.register.SETTLE_WINDOWS", 2)
