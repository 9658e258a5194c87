"""The offline judge: exit codes, JSON, and that nothing hostile passes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judged import PROBE, SECONDS, SPAN, START, World, length_gate, plan_data, span_gate

from specdecode_operator.cli import main as cli
from specdecode_operator.gates.plan import Plan, digest, schema
from specdecode_operator.gates.samples import Sample

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"
GATES = [span_gate(), length_gate()]
SMALL: dict[str, Any] = {
    "windows": {"start": START, "seconds": SECONDS, "planned": 20},
    "traffic": {"minRequests": 100},
}
DATA = plan_data(6, 3, GATES, **SMALL)
LINES = [sample.model_dump_json() for sample in World().samples(Plan.model_validate(DATA))]

Run = tuple[int, str, str]


@pytest.fixture
def judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    """Judge a plan and lines from files: exit code, output, errors."""

    def run(plan: Any, lines: Any, *options: str) -> Run:
        (tmp_path / "plan.json").write_bytes(as_bytes(plan if isinstance(plan, str | bytes) else json.dumps(plan)))
        (tmp_path / "samples").write_bytes(as_bytes(lines if isinstance(lines, str | bytes) else "\n".join(lines)))
        arguments = ["judge", "--plan", str(tmp_path / "plan.json"), "--samples", str(tmp_path / "samples"), *options]
        code = cli.main(arguments)
        return code, *capsys.readouterr()

    return run


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


# --- Good files with a known truth ------------------------------------------------------------------------------------

SUPERIOR = plan_data(6, 3, [span_gate(kind="superior")], **SMALL)
EQUIVALENT = plan_data(6, 3, [span_gate(kind="equivalent")], **SMALL)
FEW = plan_data(3, 1, [span_gate()], **SMALL)
GUARD = DATA | {"role": "guard"}
WIDE = plan_data(6, 3, [span_gate(margin=0.15)], **SMALL)

TRUTHS: list[tuple[str, dict[str, Any], World, int]] = [
    ("nothing changed", DATA, World(), 0),
    ("nothing changed, another day", DATA, World(seed=2), 0),
    ("faster", DATA, World(effect=-0.1), 0),
    ("a little slower, within the margin", DATA, World(effect=0.005), 0),
    ("exactly at the margin", DATA, World(effect=0.02), 20),
    ("beyond the margin", DATA, World(effect=0.04), 10),
    ("far beyond the margin", DATA, World(effect=0.2), 10),
    ("doubled", DATA, World(effect=math.log(2)), 10),
    ("acceptance lower", DATA, World(length_effect=-0.1), 10),
    ("acceptance higher than it can be", DATA, World(length_effect=0.1), 10),
    ("acceptance collapsed", DATA, World(length_effect=math.log(1.05 / 3)), 10),
    ("pods too different to tell", DATA, World(pod_sd=0.05), 20),
    ("the machine is slower", DATA, World(control_effect=0.015), 20),
    ("better by the margin", SUPERIOR, World(effect=-0.04), 0),
    ("better, by less than the margin", SUPERIOR, World(effect=-0.01), 20),
    ("worse, where better was promised", SUPERIOR, World(effect=0.03), 10),
    ("faster, where the same was promised", EQUIVALENT, World(effect=-0.04), 10),
    ("few pods with a noise history", FEW, World(requests=50.0), 0),
    ("an early step that has nothing against it", GUARD, World(), 20),
    ("slower, within a wide margin", WIDE, World(effect=0.05), 0),
]


@pytest.mark.parametrize(("plan", "world", "code"), [t[1:] for t in TRUTHS], ids=[t[0] for t in TRUTHS])
def test_a_good_file_gets_the_verdict_of_its_truth(
    judge: Callable[..., Run], plan: dict[str, Any], world: World, code: int
) -> None:
    lines = [sample.model_dump_json() for sample in world.samples(Plan.model_validate(plan))]
    found, output, _ = judge(plan, lines)
    assert found == code, output
    verdict = json.loads(output)
    assert verdict["outcome"] == {0: "Pass", 10: "Fail", 20: "Inconclusive"}[code]
    assert verdict["planDigest"] == digest(Plan.model_validate(plan))


# --- Hostile plans ----------------------------------------------------------------------------------------------------


def without(*path: str) -> dict[str, Any]:
    return changed(path, None, remove=True)


def changed(path: tuple[Any, ...], value: Any, *, remove: bool = False) -> dict[str, Any]:
    """The plan with one field set, or gone."""
    data = json.loads(json.dumps(DATA))
    *parents, last = path
    place = data
    for part in parents:
        place = place[part]
    if remove:
        del place[last]
    else:
        place[last] = value
    return dict(data)


PLANS: dict[str, Any] = {
    "empty": "",
    "not JSON": "{",
    "a list": "[]",
    "null": "null",
    "not UTF-8": b"\xff\xfe{}",
    "deeply nested": "[" * 100_000,
    "no version": without("gatesVersion"),
    "another version": changed(("gatesVersion",), 99),
    "no gates": changed(("gates",), []),
    "no trays": changed(("trays",), []),
    "no noise": without("gates", 0, "noise"),  # type: ignore[arg-type]
    "a field that nobody knows": changed(("gates", 0, "margn"), 0.5),
    "a margin of zero": changed(("gates", 0, "margin"), 0),
    "a negative margin": changed(("gates", 0, "margin"), -0.02),
    "a margin beyond all": changed(("gates", 0, "margin"), 1e9),
    "a margin that is no number": json.dumps(changed(("gates", 0, "margin"), math.nan)),
    "an infinite margin": json.dumps(changed(("gates", 0, "margin"), math.inf)),
    "a margin in words": changed(("gates", 0, "margin"), "2%"),
    "a kind that nobody knows": changed(("gates", 0, "kind"), "whatever"),
    "an error of one": changed(("errors",), {"pass": 1.0}),
    "an error of nothing": changed(("errors",), {"pass": 0.0}),
    "the same revision twice": changed(("candidate", "revision"), "old"),
    "a gate named twice": changed(("gates",), [*GATES, *GATES]),
    "a tray named twice": changed(("trays", 1), DATA["trays"][0]),
    "negative noise": changed(("gates", 0, "noise", "between"), -1),
    "noise that is no number": json.dumps(changed(("gates", 0, "noise", "longRun"), math.nan)),
    "a beta of a half": changed(("gates", 0, "control", "beta"), 0.5),
    "no pods": changed(("candidate", "pods"), 0),
    "a run without end": changed(("windows", "planned"), 10**9),
    "a window without length": changed(("windows", "seconds"), 0),
    "a first look after the end": changed(("windows", "firstLook"), 21),
    "one look at one window": changed(("windows",), {"start": START, "seconds": SECONDS, "planned": 1, "firstLook": 1}),
    "a weight of zero": changed(("gates", 0, "span", "strata"), {"4": 0}),
    "no strata": changed(("gates", 0, "span", "strata"), {}),
    "no control": changed(("gates", 0, "control"), None),
    "its own control": changed(("gates", 0, "control", "span", "metric"), SPAN),
    "a control that the change touches": changed(("touched",), [PROBE]),
    "a tracking without restarts": changed(
        ("gates", 0, "tracking"), {"weight": 0.75, "startSpread": 0.004, "starts": 1}
    ),
    "one stable pod": changed(("stable", "pods"), 1),
    "few pods without history": plan_data(3, 1, [span_gate(noise=DATA["gates"][0]["noise"] | {"starts": 3})], **SMALL),
    "more pods than there are": changed(("stable", "pods"), 60),
    "requests beyond all": changed(("traffic",), {"minRequests": 10**8}),
    "a metric that isn't there": changed(("gates", 0, "span", "metric"), "specdecode_nothing"),
    "strata that aren't there": changed(("gates", 0, "span", "strata"), {"64": 1.0}),
    "another start": changed(("windows", "start"), START + 7),
    "another window length": changed(("windows", "seconds"), 15),
    "other revisions": changed(("candidate", "revision"), "third"),
    "another manifest": changed(("candidate", "manifestDigest"), "sha256:else"),
    "arms exchanged": DATA | {"stable": DATA["candidate"], "candidate": DATA["stable"]},
    "traffic that nobody counted": changed(("traffic",), {"minRequests": 100, "gatewayRequests": "gateway"}),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_hostile_plan_is_a_clear_error_or_invalid(judge: Callable[..., Run], name: str) -> None:
    assert_no_pass(*judge(PLANS[name], LINES))


# --- Hostile samples --------------------------------------------------------------------------------------------------


def edited(**fields: Any) -> list[str]:
    """All samples with some fields set."""
    return [json.dumps({**json.loads(line), **fields}) for line in LINES]


SAMPLES: dict[str, Any] = {
    "empty": "",
    "empty lines": "\n\n\n",
    "not JSON": "{\n",
    "binary": bytes(range(256)) * 10,
    "a list a line": "[1, 2]",
    "one line of a megabyte": '{"metric": "' + "x" * 2**20 + '"}',
    "a field that nobody knows": edited(count_=1),
    "a field missing": [line.replace('"pod_uid"', '"pod"') for line in LINES],
    "text for a number": edited(count="many"),
    "times that are no numbers": edited(window_start=math.nan),
    "negative times": edited(window_start=-1.0),
    "counts that are no numbers": edited(count=math.nan),
    "infinite sums": edited(sum=math.inf),
    "negative counts": edited(count=-100.0),
    "zero counts": edited(count=0.0),
    "zero sums": edited(sum=0.0),
    "huge counts": edited(count=1e308),
    "tiny sums": edited(sum=5e-324),
    "all the same": edited(count=1000.0, sum=1.0),
    "every line twice": [*LINES, *LINES],
    "one line twice": [*LINES, LINES[0]],
    "one pod's UID for all": edited(pod_uid="uid"),
    "no UID": edited(pod_uid=""),
    "one node for all": edited(node="node-s0"),
    "one revision for all": edited(revision="new"),
    "a revision more": [*LINES, LINES[0].replace('"old"', '"third"')],
    "one window": edited(window_start=START, window_end=START + SECONDS),
    "windows that end before they start": edited(window_end=START - 1),
    "processes of the future": edited(start_time=START * 2),
    "all flagged": edited(flags=["reset"]),
    "flags without a name": edited(flags=[""]),
    "no requests": edited(requests=0.0),
    "requests that are no numbers": edited(requests=math.nan),
    "cut off": [*LINES[:-1], LINES[-1][:40]],
    "half of it": LINES[: len(LINES) // 2],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_hostile_samples_are_a_clear_error_or_undecided(judge: Callable[..., Run], name: str) -> None:
    assert_no_pass(*judge(DATA, SAMPLES[name]))


def assert_no_pass(code: int, output: str, errors: str) -> None:
    assert code in (20, 30, 64), (code, output, errors)
    if code == 64:
        assert errors.startswith("kubectl-specdecode: "), errors
        assert "Traceback" not in errors
        assert "; allowed: " in errors
    else:
        assert json.loads(output)["outcome"] in ("Inconclusive", "Invalid")


# --- The command ------------------------------------------------------------------------------------------------------


def test_text_is_the_verdict_in_sentences(judge: Callable[..., Run]) -> None:
    code, output, _ = judge(DATA, LINES, "-o", "text")
    assert code == 0
    assert output.startswith("Pass: all 2 gates passed.")
    assert "margin 2%" in output


def test_the_first_windows_alone_can_be_judged(judge: Callable[..., Run]) -> None:
    code, output, _ = judge(DATA, LINES, "--through", "5")
    assert code == 20
    assert json.loads(output)["reason"] == "Measuring"


@pytest.mark.parametrize("arguments", [[], ["judge"], ["judge", "--plan", "x"], ["other"], ["judge", "--through", "0"]])
def test_wrong_use_exits_64_and_says_how(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 64
    assert capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["judge", "--plan", "/nowhere/plan.json", "--samples", "-"]) == 64
    assert "/nowhere/plan.json: No such file" in capsys.readouterr().err


def test_a_defect_of_the_judge_is_70(monkeypatch: pytest.MonkeyPatch, judge: Callable[..., Run]) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("specdecode_operator.cli.judge.judge", broken)
    assert judge(DATA, LINES)[0] == 70


def test_samples_can_come_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(DATA))
    command = [sys.executable, "-m", "specdecode_operator.cli.main", "judge", "--plan", str(tmp_path / "plan.json")]
    found = subprocess.run([*command, "--samples", "-"], input="\n".join(LINES), text=True, capture_output=True)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["outcome"] == "Pass"


@pytest.mark.parametrize(
    ("name", "made"), [("plan.schema.json", schema()), ("sample.schema.json", Sample.model_json_schema())]
)
def test_the_published_schema_is_the_judge_s_own(name: str, made: dict[str, Any]) -> None:
    assert json.loads((SCHEMAS / name).read_text()) == made, f"kubectl-specdecode judge --schema {name.split('.')[0]}"


def test_the_digest_changes_with_anything_that_the_plan_pins() -> None:
    digests = {digest(Plan.model_validate(data)) for data in (DATA, GUARD, changed(("gates", 0, "margin"), 0.021))}
    assert len(digests) == 3
    assert digest(Plan.model_validate_json(json.dumps(DATA))) in digests
