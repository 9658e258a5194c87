"""Whatever a pod answers, reading it ends, is bounded, and trusts nothing but the truth."""

from __future__ import annotations

import json
from typing import Any

from builders import deployment
from fleet import Fleet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.plan.testimony import LONGEST, Attestation, Garbled, Silence, read

SERIES = CATALOGUE.of_line("0.33.0")
assert SERIES is not None
TRUTH: dict[str, Any] = {
    "ok": True,
    "release": SERIES.line,
    "manifest_digest": SERIES.manifest_digest,
    "optimizations": [{"name": name, "state": state} for name, state in SERIES.states(()).items()],
    "findings": [],
}
texts = st.text(alphabet="ab:/.\n\x1b\u202eé", max_size=200)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
rows = st.lists(st.fixed_dictionaries({"name": texts, "state": texts}) | values, max_size=80)
documents = st.builds(
    lambda whole, changes: {**whole, **changes},
    st.just(TRUTH),
    st.fixed_dictionaries(
        {},
        optional={
            "ok": values,
            "release": values,
            "manifest_digest": values,
            "optimizations": rows | values,
            "findings": rows | values,
        },
    ),
)
bodies = st.binary(max_size=2000) | documents.map(lambda document: json.dumps(document).encode())


@given(status=st.sampled_from([200, 204, 301, 404, 500]), body=bodies)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_reading_never_fails_and_what_it_repeats_is_short_and_printable(status: int, body: bytes) -> None:
    said = read(status, body)
    if isinstance(said, Attestation):
        texts = [said.release, said.manifest_digest, *said.findings, *said.states, *said.states.values()]
        assert all(len(text) <= 260 and text.isprintable() for text in texts)
        assert len(said.states) <= 64
    elif isinstance(said, Garbled | Silence):
        assert len(repr(said)) < 100


@given(size=st.integers(LONGEST + 1, LONGEST + 10))
@settings(max_examples=3, deadline=None)
def test_too_much_is_no_attestation_whatever_it_begins_with(size: int) -> None:
    assert isinstance(read(200, json.dumps(TRUTH).encode().ljust(size)), Garbled)


@given(document=documents)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_pod_is_in_the_route_only_if_it_says_the_truth(document: dict[str, Any]) -> None:
    fleet = Fleet.of(deployment().behind("edge"))
    image = fleet.obj["spec"]["engine"]["image"]
    fleet.lies[image] = said = read(200, json.dumps(document).encode())
    fleet.settle()
    assert bool(fleet.routed()) == (isinstance(said, Attestation) and said.ok and is_same(said))
    assert fleet.condition("Attested")["status"] == ("True" if fleet.routed() else "False")
    assert len(fleet.condition("Attested")["message"]) < 32768
    assert names.CONDITION_ATTESTED in {each["type"] for each in fleet.obj["status"]["conditions"]}


def is_same(said: Attestation) -> bool:
    """What the operator compares; rows of optimizations that the series doesn't have, it passes over."""
    assert SERIES is not None
    known = {name: state for name, state in said.states.items() if name in SERIES.states(())}
    return (said.release, said.manifest_digest, known) == (SERIES.line, SERIES.manifest_digest, SERIES.states(()))
