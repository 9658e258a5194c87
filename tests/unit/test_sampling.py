"""A canary's question reaches the backend that its object names, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from judged import World, make_plan

from specdecode_operator import sampling
from specdecode_operator.apply.canary import Missing, Question
from specdecode_operator.gates.samples import Sample
from specdecode_operator.metrics.backends import Backend
from specdecode_operator.metrics.errors import BackendDown, MetricsError, NoData
from specdecode_operator.metrics.query import Question as Asked
from specdecode_operator.sampling import Sampler, question_of

QUESTION = Question(
    namespace="team", name="chat", backend="main", revisions=("old", "new"), start=0.0, seconds=30.0, windows=45,
    scrape=10.0, metrics=("specdecode_drafter_gpu_seconds", "specdecode_probe_device_seconds"),
    histograms=("specdecode_drafter_gpu_seconds",),
)  # fmt: skip
MAIN = Backend(name="main", url="http://prometheus.example.com")


class Fetched:
    """What each piece gives, in turn."""

    def __init__(self, *answers: tuple[Sample, ...] | MetricsError) -> None:
        self.answers: Iterator[tuple[Sample, ...] | MetricsError] = iter(answers)
        self.asked: list[Asked] = []

    async def __call__(self, backend: Backend, question: Asked) -> tuple[Sample, ...]:
        self.asked.append(question)
        answer = next(self.answers)
        if isinstance(answer, MetricsError):
            raise answer
        return answer


def some() -> tuple[Sample, ...]:
    return tuple(World().samples(make_plan(), 1)[:3])


def test_buckets_are_asked_for_where_a_quantile_is_gated() -> None:
    assert [metric.buckets for metric in question_of(QUESTION).metrics] == [True, False]


async def test_a_long_time_is_read_in_pieces_of_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = Fetched(some(), some(), some())
    monkeypatch.setattr(sampling, "fetch", fetched)
    assert len(await Sampler([MAIN])(QUESTION)) == 9
    assert [(piece.grid.start, piece.grid.count) for piece in fetched.asked] == [(0.0, 20), (600.0, 20), (1200.0, 5)]


async def test_a_piece_without_data_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "fetch", Fetched(NoData("nothing"), some(), some()))
    assert len(await Sampler([MAIN])(QUESTION)) == 6


@pytest.mark.parametrize(
    ("answers", "kind"),
    [((NoData("nothing"),) * 3, "NoData"), ((some(), BackendDown("it is gone")), "BackendDown")],
)
async def test_nothing_at_all_and_nobody_there_are_told_apart(
    answers: tuple[MetricsError, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "fetch", Fetched(*answers))
    with pytest.raises(Missing) as missing:
        await Sampler([MAIN])(QUESTION)
    assert missing.value.kind == kind


async def test_a_backend_that_isnt_open_to_the_namespace_is_named_with_its_field() -> None:
    closed = Backend(name="main", url="http://prometheus.example.com", namespaces=("elsewhere",))
    with pytest.raises(Missing, match=r"spec\.metrics\.backend") as missing:
        await Sampler([closed])(replace(QUESTION, backend="main"))
    assert missing.value.kind == "BackendDown"
