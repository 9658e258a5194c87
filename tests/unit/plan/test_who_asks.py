"""Who has asked something of a canary: as the annotation says it, or as the API server knows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from canaries import changed

from specdecode_operator.api import names
from specdecode_operator.cli.request import PLAIN
from specdecode_operator.plan.canary import requests
from specdecode_operator.plan.plan import plan
from specdecode_operator.plan.validate import Allowed

PLAINLY = {"id": "1", "verb": "abort", "runID": "r", "by": "alice", "reason": "because"}


def read(text: str, *, verified: bool = True) -> requests.Request | None:
    return requests.read({names.ANNOTATION_REQUEST: text}, verified=verified)


def lets_pass(text: str, user: str) -> bool:
    """The chart's policy (templates/requests.yaml), spelled in Python."""
    plain = "\\" not in text and len(text.split("{")) == 2 and len(text.split('"by"')) == 2
    return plain and any(f'"by":{space}"{user}"' in text for space in ("", " "))


def test_without_the_policy_a_name_is_what_somebody_wrote() -> None:
    asked = read(json.dumps(PLAINLY), verified=False)
    assert asked is not None
    assert asked.who == "alice (unverified)"


def test_with_the_policy_it_is_who_wrote_it_but_nobody_stays_unverified() -> None:
    asked, nameless = read(json.dumps(PLAINLY)), read('{"id": "1"}')
    assert asked is not None
    assert nameless is not None
    assert (asked.who, nameless.who) == ("alice", "nobody named (unverified)")


FORGED = [
    '{"id": "1", "by": "mallory", "by": "alice"}',
    '{"id": "1", "by": "alice", "by": "mallory"}',
    '{"id": "1", "by": "alice", "\\u0062y": "mallory"}',
    '{"id": "1", "by": "mallory", "\\u0062y": "alice"}',
    '{"id": "1", "x\\"by": "mallory", "\\u0062y": "alice"}',
    '{"id": "1", "reason": {"by": "mallory"}}',
    '{"id": "1", "reason": "\\"by\\": \\"mallory\\"", "by": "alice"}',
    '{"id": "1", "verb": "by", "reason": "mallory", "by": "alice"}',
    '{"id": "1", "by": "mallory2"}',
    '[{"id": "1", "by": "mallory"}]',
    '{"id": "1", "by" : "alice", "reason": "by: mallory"}',
]


@pytest.mark.parametrize("text", FORGED)
def test_what_the_policy_lets_pass_is_never_read_as_another_s(text: str) -> None:
    asked = read(text)
    for user in ("alice", "mallory"):
        assert not lets_pass(text, user) or asked is None or asked.by == user


def test_a_text_with_a_key_twice_is_none() -> None:
    assert read('{"id": "1", "by": "mallory", "by": "alice"}') is None


def test_what_the_command_writes_passes_whatever_the_reason() -> None:
    reason = 'a "quoted" {brace} back\\slash\nand ümlaut'
    text = json.dumps({**PLAINLY, "reason": reason.translate(PLAIN)}, ensure_ascii=False)
    assert lets_pass(text, "alice")
    assert not lets_pass(text, "mallory")
    asked = read(text)
    assert asked is not None
    assert asked.reason == "a 'quoted' (brace) back/slash and ümlaut"


def test_the_operator_believes_a_name_only_where_it_is_told_that_it_may() -> None:
    fleet = changed()
    fleet.until("Measuring", "1/2")
    fleet.ask("pause")

    def who(**allowed: Any) -> str:
        request = plan(fleet.parsed(), fleet.observed(), fleet.now, Allowed(**allowed)).status.request
        assert request is not None
        return request.by

    assert who() == "alice (unverified)"
    assert who(verified_requests=True) == "alice"
