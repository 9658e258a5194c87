"""What a pod says of itself is read with distrust: its shape, its size, and every letter that would be repeated."""

import json
from typing import Any

import pytest

from specdecode_operator.plan.testimony import LONGEST, Absent, Attestation, Garbled, Silence, read

GOOD: dict[str, Any] = {
    "ok": True,
    "release": "0.33.0",
    "series": "v0.33.0",
    "manifest_digest": "a" * 64,
    "expected_manifest": None,
    "disabled": [],
    "optimizations": [
        {"name": "telemetry", "state": "active", "origin": "carried", "switchable": True, "files": ["vllm/x.py"]}
    ],
    "findings": [],
}


def body(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_an_attestation_is_read_as_it_is_given() -> None:
    assert read(200, body()) == Attestation(True, "0.33.0", "a" * 64, {"telemetry": "active"})


def test_what_later_engines_add_is_passed_over() -> None:
    assert read(200, body(signature="x")) == read(200, body())


def test_findings_are_repeated_by_subject_and_reason_and_only_a_few_of_them() -> None:
    finding = {"reason": "edited", "subject": "vllm/x.py", "found": "b", "expected": "c", "action": "d"}
    said = read(200, body(ok=False, findings=[finding] * 9))
    assert isinstance(said, Attestation)
    assert said.findings == ("vllm/x.py: edited",) * 3


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_the_path_has_no_package_of_ours(status: int) -> None:
    assert read(status, b"Not Found") == Absent(status)


@pytest.mark.parametrize("status", [301, 401, 429, 500, 503])
def test_a_failure_is_no_answer(status: int) -> None:
    assert isinstance(read(status, body()), Silence)


WRONG = {
    "empty": b"",
    "no JSON": b"ready",
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "text": b'"ok"',
    "nested without end": b"[" * 100_000,
    "not UTF-8": b'{"ok": "\xff"}',
    "nothing in it": b"{}",
    "ok as text": body(ok="true"),
    "ok as a number": body(ok=1),
    "digest as a number": body(manifest_digest=7),
    "rows that are none": body(optimizations=[1]),
    "rows as a map": body(optimizations={"telemetry": "active"}),
    "a state that is a list": body(optimizations=[{"name": "telemetry", "state": []}]),
    "rows without end": body(optimizations=[{"name": str(n), "state": "active"} for n in range(999)]),
    "findings as text": body(findings="none"),
    "too long": body(pad="x" * LONGEST),
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_no_attestation_proves_nothing(answer: bytes) -> None:
    assert isinstance(read(200, answer), Garbled)


def test_what_a_message_would_repeat_is_short_and_of_one_line() -> None:
    said = read(200, body(release="0\n\x1b[31m" + "x" * 4000, manifest_digest="\u202e" * 300))
    assert isinstance(said, Attestation)
    for text in (said.release, said.manifest_digest):
        assert len(text) <= 128
        assert all(letter.isprintable() for letter in text)
