"""A page of samples with anything missing or wrong: it says what the judge said, and draws what there is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from justhtml import JustHTML
from simulatedrun import DRAFTER, PROBE, Simulation

from specdecode_operator.gates.samples import Sample
from specdecode_operator.gates.told import LENGTHS
from specdecode_operator.report.case import Case, judged_of
from specdecode_operator.report.page import page

SIMULATION = Simulation(pods=7, slots=((2, 12),))
PLAN = SIMULATION.plan().steps[0].starting(1e9)
SAMPLES = tuple(SIMULATION.samples(PLAN, 0))

Change = Callable[[Sample], Sample | None]


def without(wrong: Callable[[Sample], bool]) -> Change:
    return lambda sample: None if wrong(sample) else sample


def altered(**fields: object) -> Change:
    return lambda sample: sample.model_copy(update=fields)


CHANGES: dict[str, Change] = {
    "as it was": lambda sample: sample,
    "nothing": without(lambda _: True),
    "no candidate": without(lambda sample: sample.revision == PLAN.candidate.revision),
    "no stable": without(lambda sample: sample.revision == PLAN.stable.revision),
    "no drafter": without(lambda sample: sample.metric == DRAFTER),
    "no control": without(lambda sample: sample.metric == PROBE),
    "no lengths": without(lambda sample: sample.metric == LENGTHS),
    "lengths alone": without(lambda sample: sample.metric != LENGTHS),
    "one window": without(lambda sample: sample.window_start > PLAN.windows.start),
    "all flagged": altered(flags=("reset",)),
    "a flag of no known meaning": altered(flags=("<b>",)),
    "NaN": altered(sum=math.nan),
    "infinite": altered(sum=math.inf),
    "zero": altered(count=0.0, sum=0.0),
    "all alike": altered(count=1000.0, sum=1.0),
    "another node": altered(node="elsewhere"),
    "another revision": altered(revision="third"),
    "one pod's UID for all": altered(pod_uid="uid"),
    "huge": altered(count=1e300, sum=1e300),
    "tiny": altered(sum=5e-324),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_the_samples_are_there_is_a_page_that_says_so(case: Case, name: str) -> None:
    samples = tuple(changed for each in SAMPLES if (changed := CHANGES[name](each)) is not None)
    judged = judged_of(PLAN, samples, 12)
    step = replace(case.last, plan=PLAN, judged=judged)
    text = page(replace(case, steps=(step,)))
    document = JustHTML(text, strict=True, sanitize=False)
    assert document.errors == []
    assert not re.search(r"\b(nan|inf)\b", document.to_text())
    assert all(gate.sentence in document.to_text() for gate in judged.verdict.gates)
    drawn = [value for each in document.query("svg *") for key, value in each.attrs.items() if key not in WORDS]
    assert not [value for value in drawn if value and ("nan" in value or "inf" in value.split())]


WORDS = {"class", "aria-label"}
