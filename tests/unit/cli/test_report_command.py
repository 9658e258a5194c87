"""The command that prints a report: from a file, from a cluster, and what it says of what it can't read."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdecode_operator.cli import main

RECORD = Path(__file__).resolve().parents[3] / "examples" / "report" / "run.yaml"
PAGE = RECORD.with_name("report.html")


@pytest.fixture(scope="module")
def items() -> list[dict[str, Any]]:
    """The example's ConfigMaps, without their samples: nothing here looks at what was judged."""
    found = yaml.load(RECORD.read_text(), Loader=yaml.CSafeLoader)["items"]
    found[1]["binaryData"] = {}
    return list(found)


def write(path: Path, content: Any, *, plain: bool = False) -> str:
    path.write_text(content if plain else json.dumps(content))
    return str(path)


def test_the_example_gives_the_page_beside_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    note = PAGE.read_text().split('<p class="note">')[1].split("</p>")[0]
    assert main.main(["report", "--from", str(RECORD), "--note", note]) == 0
    assert capsys.readouterr().out == PAGE.read_text()


@pytest.mark.parametrize("form", ["json", "yaml", "documents"])
def test_a_record_is_read_as_kubectl_writes_it(
    tmp_path: Path, items: list[dict[str, Any]], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    text = {
        "json": json.dumps(listed),
        "yaml": yaml.safe_dump(listed),
        "documents": yaml.safe_dump_all([*items, {"kind": "Secret"}, None]),
    }[form]
    assert main.main(["report", "--from", write(tmp_path / "record", text, plain=True)]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_a_record_may_come_from_standard_input(
    items: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"items": items}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main.main(["report", "--from", "-", "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["outcome"], said["run"]) == ("Pass", "20260302a1")


def test_a_cluster_is_asked_for_the_object_s_runs(
    tmp_path: Path, items: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {write(tmp_path / "maps", {"items": items})}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert main.main(["report", "chat", "-n", "team", "--run", "20260302a1", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "chat"
    assert (tmp_path / "asked").read_text().split() == [
        "--namespace", "team", "get", "configmap", "-l", "specdecode.io/name=chat,specdecode.io/run", "-o", "json",
    ]  # fmt: skip


def test_a_run_that_is_not_kept_is_named_with_those_that_are(
    tmp_path: Path, items: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "record", {"items": items})
    assert main.main(["report", "--from", path, "--run", "other"]) == 64
    assert "run: found other; allowed: one of: 20260302a1" in capsys.readouterr().err


ALIASES = "a: &a [x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no run's ConfigMap"),
        ("{", "ConfigMaps as kubectl get -o yaml writes them"),
        ("[" * 100_000, "ConfigMaps as kubectl get -o yaml writes them"),
        ("a: [", "ConfigMaps as kubectl get -o yaml writes them"),
        ("!!python/object/apply:os.system [false]", "ConfigMaps as kubectl get -o yaml writes them"),
        (ALIASES, "an alias"),
        ("\x00", "ConfigMaps as kubectl get -o yaml writes them"),
        ('{"kind": "ConfigMap"}', "configmap.metadata: found what no ConfigMap has"),
        ('{"kind": "ConfigMap", "metadata": 7}', "configmap.metadata: found what no ConfigMap has"),
        ('{"kind": "ConfigMap", "metadata": {"name": "x", "labels": [1]}}', "configmap.metadata.labels: found"),
        (
            '{"items": [1, null, {"kind": "ConfigMap", "metadata": {"name": "x", "labels": null}}]}',
            "no run's ConfigMap",
        ),
    ],
)
def test_what_is_no_record_is_a_clear_error(
    tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", "--from", write(tmp_path / "record", content, plain=True)]) == 64
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("metadata", "name"), None),
        (("data",), None),
        (("data",), 7),
        (("data", "run.json"), "{"),
        (("data", "run.json"), 7),
        (("data", "plan-2.json"), "{"),
        (("binaryData",), {"samples-2.jsonl.gz": "not base64!"}),
        (("binaryData",), {"samples-2.jsonl.gz": 7}),
        (("binaryData",), 7),
    ],
)
def test_a_broken_record_is_a_clear_error(
    tmp_path: Path, items: list[dict[str, Any]], place: tuple[str, ...], value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = json.loads(json.dumps(items))
    *parents, last = place
    inner = broken[1]
    for part in parents:
        inner = inner[part]
    inner[last] = value
    assert main.main(["report", "--from", write(tmp_path / "record", {"items": broken})]) == 64
    error = capsys.readouterr().err
    assert "; allowed: " in error
    assert "Traceback" not in error


@pytest.mark.parametrize("arguments", [["report"], ["report", "--from", "/nowhere/run.yaml"], ["report", "-o", "pdf"]])
def test_wrong_use_of_report_exits_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main.main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 64
    assert capsys.readouterr().err
