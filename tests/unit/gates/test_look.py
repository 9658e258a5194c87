"""A look at a run that goes on: what is recorded is what was judged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable

import pytest
from judged import LENGTH, SECONDS, START, World, altered, make_plan

from specdecode_operator.gates.judge import judge
from specdecode_operator.gates.look import Looked, look, packed, unpacked
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.samples import Sample

COHORT = frozenset(f"uid-s{place}" for place in range(12))


def between(samples: Iterable[Sample], first: int, last: int) -> list[Sample]:
    return [each for each in samples if START + SECONDS * first <= each.window_start < START + SECONDS * last]


def looked(plan: Plan, samples: list[Sample], through: int, before: Looked | None = None, since: int = 0) -> Looked:
    return look(
        plan,
        between(samples, since, through),
        through=through,
        cohort=COHORT,
        samples=before.samples if before else b"",
        looks=before.looks if before else b"",
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan()


@pytest.fixture(scope="module")
def samples(plan: Plan) -> list[Sample]:
    return World().samples(plan)


def test_window_by_window_it_comes_to_what_the_judge_says_of_all(plan: Plan, samples: list[Sample]) -> None:
    first = looked(plan, samples, 15)
    second = looked(plan, samples, 40, first, since=15)
    whole = judge(plan, samples)
    assert (second.verdict.outcome, second.verdict.decided_at) == (whole.outcome, whole.decided_at)


def test_the_record_alone_gives_the_same_verdict(plan: Plan, samples: list[Sample]) -> None:
    found = looked(plan, samples, 20)
    assert judge(plan, unpacked(found.samples), through=20) == found.verdict


def test_each_look_leaves_a_line(plan: Plan, samples: list[Sample]) -> None:
    second = looked(plan, samples, 12, looked(plan, samples, 11), since=11)
    lines = [json.loads(line) for line in gzip.decompress(second.looks).splitlines()]
    assert [line["window"] for line in lines] == [11, 12]
    assert set(lines[0]["gates"][0]) >= {"gate", "estimate", "interval", "margin"}


def test_stable_pods_that_came_later_are_not_compared(plan: Plan, samples: list[Sample]) -> None:
    late = [altered(each, pod_uid="uid-late", node="node-elsewhere") for each in samples if each.pod_uid == "uid-s0"]
    assert looked(plan, [*samples, *late], 12).verdict == looked(plan, samples, 12).verdict


def test_a_candidates_pod_that_came_later_is(plan: Plan, samples: list[Sample]) -> None:
    late = [altered(each, pod_uid="uid-late") for each in samples if each.pod_uid == "uid-c0"]
    assert looked(plan, [*samples, *late], 12).verdict.reason == "CandidateRestarted"


def test_packing_is_the_same_each_time_and_small(samples: list[Sample]) -> None:
    some = samples[:2000]
    assert packed(some) == packed(some)
    assert tuple(unpacked(packed(some))) == tuple(some)
    assert len(packed(some)) < 40 * len(some)


def test_what_no_gate_reads_is_told_beside_the_verdict_and_not_recorded(plan: Plan, samples: list[Sample]) -> None:
    found = looked(plan, samples, 11)
    assert LENGTH not in {each.metric for each in unpacked(found.samples)}
    (line,) = [json.loads(line) for line in gzip.decompress(found.looks).splitlines()]
    (stable,) = [row for row in line["told"] if (row["metric"], row["arm"]) == (LENGTH, "stable")]
    assert stable["count"] == sum(each.count for each in between(samples, 0, 11) if of_stable_lengths(each))


def of_stable_lengths(sample: Sample) -> bool:
    return sample.metric == LENGTH and sample.revision == "old"
