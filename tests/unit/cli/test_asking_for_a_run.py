"""Asking something of a canary, and seeing its plan, through a kubectl that stands in for the real one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from canaries import registered, registering

from specdecode_operator.api import names
from specdecode_operator.build import runplan
from specdecode_operator.build.owner import Owner
from specdecode_operator.cli import main, request
from specdecode_operator.gates.run import digest_of, text_of

KUBECTL = """\
#!/bin/sh
echo "$@" >> "$STATE/calls"
case "$*" in
  *"auth whoami"*) echo '{"status": {"userInfo": {"username": "alice"}}}' ;;
  *annotate*)
    for last; do :; done
    printf '%s' "${last#*=}" > "$STATE/request"
    id=$(sed 's/.*"id": "\\([^"]*\\)".*/\\1/' "$STATE/request")
    [ ! -e "$STATE/answer" ] || sed "s/ID/$id/" "$STATE/answer" > "$STATE/object" ;;
  *configmap*) cat "$STATE/configmap" ;;
  *) cat "$STATE/object" ;;
esac
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the stand-in reads and writes."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("STATE", str(tmp_path))
    write(tmp_path / "object", {"status": {"run": {"id": "r1"}}})
    return tmp_path


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("verb", list(request.VERBS))
def test_a_request_names_the_current_run_and_who_asks(cluster: Path, verb: str) -> None:
    write(cluster / "answer", {"status": {"run": {"id": "r1"}, "request": {"id": "ID"}}})
    assert main.main([verb, "chat", "-n", "team", "--reason", "because"]) == 0
    asked = json.loads((cluster / "request").read_text())
    assert (asked["verb"], asked["runID"], asked["by"], asked["reason"]) == (verb, "r1", "alice", "because")
    assert "--namespace team" in (cluster / "calls").read_text()


def test_a_refusal_is_told_with_its_own_exit_code(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(cluster / "answer", {"status": {"run": {"id": "r1"}, "request": {"id": "ID", "refused": "too late"}}})
    assert main.main(["promote", "chat"]) == 30
    assert "Refused: too late." in capsys.readouterr().out


def test_no_answer_is_neither(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "PATIENCE", 0.0)
    assert main.main(["abort", "chat"]) == 20


def test_without_a_run_nothing_is_asked(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(cluster / "object", {"status": {}})
    assert main.main(["abort", "chat"]) == 64
    assert "status.run.id" in capsys.readouterr().err
    assert not (cluster / "request").exists()


def test_a_plan_is_shown_with_what_it_can_find(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(registered(registering().asked, ["node-1"]))
    name = names.run_plan("chat", "0123456789")
    write(cluster / "configmap", runplan.build(Owner("chat", "team", "uid"), "0123456789", text))
    write(cluster / "object", {"status": {"run": {"plan": name, "planDigest": digest_of(text)}}})
    assert main.main(["plan", "chat"]) == 0
    shown = capsys.readouterr().out
    assert "step 1 (decide): 4 slots against 12" in shown
    assert "margin 2%, smallest effect it can find 1.00%" in shown


def test_a_plan_of_another_digest_is_none(cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(registered(registering().asked, ["node-1"]))
    write(cluster / "configmap", runplan.build(Owner("chat", "team", "uid"), "0123456789", text))
    write(cluster / "object", {"status": {"run": {"plan": "p", "planDigest": "sha256:other"}}})
    assert main.main(["plan", "chat"]) == 64
    assert "planDigest" in capsys.readouterr().err
