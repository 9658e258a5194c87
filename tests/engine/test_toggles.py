"""A switch that would do nothing is refused, never accepted."""

import pytest

from specdecode_engine import toggles
from specdecode_engine.errors import Refused

LINE = {"splitkv-decode": True, "telemetry": True, "prefix-cache-tail": False}


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", set()),
        (" , ", set()),
        ("telemetry", {"telemetry"}),
        (" splitkv-decode ,telemetry,", {"splitkv-decode", "telemetry"}),
    ],
)
def test_switchable_names_are_taken(value: str, names: set[str]) -> None:
    assert toggles.parse(value, LINE) == names


def test_every_name_that_cannot_be_switched_is_refused_at_once() -> None:
    with pytest.raises(Refused) as caught:
        toggles.parse("splitkv-decode,prefix-cache-tail,Telemetry", LINE)
    assert [(f.found, f.reason) for f in caught.value.findings] == [
        ("Telemetry", "unknown optimization"),
        ("prefix-cache-tail", "not switchable"),
    ]
    assert "splitkv-decode, telemetry" in str(caught.value)
