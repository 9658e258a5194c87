"""`kubectl-specdecode plan` of what doesn't exist yet: an object's file, and a history from a file or a Prometheus."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import DeploymentBuilder
from canaries import canary
from judged import SECONDS, START, World, make_plan

from specdecode_operator.cli import backend
from specdecode_operator.cli import main as cli
from specdecode_operator.gates.register import HISTORY_WINDOWS
from specdecode_operator.gates.run import RunPlan
from specdecode_operator.gates.samples import Sample
from specdecode_operator.metrics.errors import BackendDown, NoData
from specdecode_operator.metrics.query import Question

STEPS = [{"slots": 1}, {"slots": 4, "maxDuration": "40m"}]
WIDE = canary(16, STEPS)

Run = tuple[int, str, str]


def history(**world: Any) -> list[Sample]:
    windows = {"start": START, "seconds": SECONDS, "planned": HISTORY_WINDOWS}
    samples = World(**world).samples(make_plan(16, 1, windows=windows))
    return [sample for sample in samples if sample.revision == "old"]


CALM, WILD = history(), history(pod_sd=0.02)


def lines(samples: list[Sample]) -> str:
    return "".join(f"{sample.model_dump_json(exclude_defaults=True)}\n" for sample in samples)


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Run the command on an object's file: exit code, output, errors."""

    def run(sdd: DeploymentBuilder | str, *options: str, samples: str | None = None) -> Run:
        text = sdd if isinstance(sdd, str) else yaml.safe_dump(sdd.built())
        (tmp_path / "chat.yaml").write_text(text)
        words = ["plan", "-f", str(tmp_path / "chat.yaml"), *options]
        if samples is not None:
            (tmp_path / "history.jsonl").write_text(samples)
            words += ["--samples", str(tmp_path / "history.jsonl")]
        return cli.main(words), *capsys.readouterr()

    return run


def test_an_object_that_is_not_there_yet_has_a_plan(plan: Callable[..., Run]) -> None:
    code, output, errors = plan(WIDE, samples=lines(CALM))
    assert (code, errors) == (0, "")
    assert "Not registered; so it would be now, against revision old." in output
    assert "step 2 (decide): 4 slots against 12, 80 windows of 30 s = 40 minutes at most; then Hold" in output
    assert "before each step: 10 minutes" in output
    assert re.search(r"drafter: nonInferior, margin 2%, smallest effect it can find 0\.\d\d%", output)


def test_as_json_it_is_what_would_be_registered(plan: Callable[..., Run]) -> None:
    _, output, _ = plan(WIDE, "-o", "json", samples=lines(CALM))
    made = RunPlan.model_validate_json(output)
    assert (made.stable, len(made.trays), [step.slots for step in made.steps]) == ("old", 16, [1, 4])


def test_a_plan_too_weak_says_what_would_do(plan: Callable[..., Run]) -> None:
    code, output, _ = plan(WIDE, samples=lines(WILD))
    assert code == 30
    assert output.startswith("Nothing would move (Underpowered): gate drafter: 12 stable and 4 candidate slots")
    assert "no duration will do; nor any split of 16 slots, but a fleet of " in output


def test_the_last_windows_of_a_longer_history_count(plan: Callable[..., Run]) -> None:
    first = min(each.window_start for each in CALM)
    early = [
        each.model_copy(update={"window_start": each.window_start - 3900, "window_end": each.window_end - 3900,
                                "node": f"left-{each.node}"})
        for each in WILD
    ]  # fmt: skip
    assert all(each.window_end <= first for each in early)
    code, output, _ = plan(WIDE, "-o", "json", samples=lines([*early, *CALM]))
    assert code == 0
    assert not any(node.startswith("left-") for node in RunPlan.model_validate_json(output).trays)


def test_of_two_revisions_one_has_to_be_named(plan: Callable[..., Run]) -> None:
    other = [each.model_copy(update={"revision": "third", "pod_uid": f"{each.pod_uid}-3"}) for each in CALM[:400]]
    code, _, errors = plan(WIDE, samples=lines([*CALM, *other]))
    assert (code, "--revision: found none; allowed: old or third" in errors) == (64, True)
    assert plan(WIDE, "--revision", "old", samples=lines([*CALM, *other]))[0] == 0


@pytest.mark.parametrize(
    ("sdd", "words"),
    [
        (WIDE.set("spec.rollout.strategy", "Replace"), "spec.rollout.strategy: found Replace; allowed: Canary"),
        (WIDE.set("spec.gates", []), "spec.gates: found none with strategy Canary"),
        (WIDE.set("spec.metrics.window", "60s"), "--samples: found a window of 30 s; allowed: the object's, 60 s"),
        ("kind: SpecDecodeDeployment\nspec: {replicas: many}", "spec"),
        ("kind: ConfigMap", "-f: found 0 that fit"),
        ("kind: SpecDecodeDeployment\nmetadata: text", "-f: found 0 that fit"),
        ("a: [", "allowed: SpecDecodeDeployments as kubectl"),
    ],
)
def test_what_can_not_be_planned_is_64_and_named(
    plan: Callable[..., Run], sdd: DeploymentBuilder | str, words: str
) -> None:
    code, output, errors = plan(sdd, samples=lines(CALM[:8]))
    assert (code, output) == (64, "")
    assert words in errors


def test_a_fleet_too_small_is_told_how_many_replicas_it_needs(plan: Callable[..., Run]) -> None:
    code, output, _ = plan(WIDE.replicas(4), samples=lines(CALM))
    assert (code, "Raise spec.replicas to 6 or more" in output) == (30, True)


def test_without_a_history_a_file_is_not_enough(plan: Callable[..., Run]) -> None:
    assert "-f: found no history" in plan(WIDE)[2]
    assert plan(WIDE, samples="")[:2] == (30, "Nothing would move (NoData): there are no samples of revision none to "
                                          "calibrate on\n")  # fmt: skip


# --- A Prometheus -----------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """What a Prometheus is asked that has the calm history, whenever it is asked."""
    questions: list[Question] = []

    async def answers(question: Question, _: backend.Backend) -> AsyncIterator[list[Sample]]:
        questions.append(question)
        late = question.grid.start - START
        yield [
            each.model_copy(update={"window_start": each.window_start + late, "window_end": each.window_end + late,
                                    "start_time": each.start_time + late})
            for each in CALM
        ]  # fmt: skip

    monkeypatch.setattr(backend, "answers", answers)
    return questions


def test_the_history_can_be_another_object_s(plan: Callable[..., Run], asked: list[Question]) -> None:
    code, output, errors = plan(WIDE, "--backend-url", "http://127.0.0.1:9", "--history-of", "elder", "-n", "team")
    assert (code, errors) == (0, "")
    assert "against revision old" in output
    (question,) = asked
    assert (question.namespace, question.name, question.grid.count) == ("team", "elder", HISTORY_WINDOWS)
    assert [metric.name for metric in question.metrics] == [
        "specdecode_drafter_gpu_seconds", "specdecode_probe_device_seconds",
    ]  # fmt: skip


@pytest.mark.parametrize(("error", "code"), [(NoData("nothing of it"), 30), (BackendDown("it is refused"), 64)])
def test_a_prometheus_without_an_answer_is_told(
    plan: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    async def answers(*_: Any) -> AsyncIterator[list[Sample]]:
        raise error
        yield []

    monkeypatch.setattr(backend, "answers", answers)
    found, output, errors = plan(WIDE, "--backend-url", "http://127.0.0.1:9")
    assert (found, str(error) in output + errors) == (code, True)


def test_neither_name_nor_file_is_64(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan"]) == 64
    assert "an object's name, or -f FILE" in capsys.readouterr().err
