"""Queries as text: what is asked is what is shown, and nothing in a name changes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scraped import GRID, QUESTION, SPAN

from specdecode_operator.metrics.query import IDENTITY, Metric, queries

LABELS = 'namespace="team", specdecode_name="chat"'


def test_a_query_is_the_text_that_a_person_would_paste() -> None:
    identity, ((_, measured),) = queries(QUESTION, {})
    assert str(measured) == f'{{__name__=~"{SPAN}_count|{SPAN}_sum", {LABELS}}}[110s] @ 1090.000'
    assert str(identity) == f'{{__name__=~"{"|".join(IDENTITY)}", {LABELS}}}[110s] @ 1090.000'


def test_no_query_has_a_function_that_extrapolates() -> None:
    asked = replace(QUESTION, metrics=(Metric(SPAN, buckets=True), Metric("a_total")))
    identity, measured = queries(asked, {"cluster": "a"})
    assert all(str(query).startswith("{__name__") for query in (identity, *(query for _, query in measured)))


@pytest.mark.parametrize(
    ("metric", "matcher"),
    [
        (Metric(SPAN, buckets=True), f'__name__=~"{SPAN}_count|{SPAN}_sum|{SPAN}_bucket"'),
        (Metric("specdecode_drafts_total"), '__name__="specdecode_drafts_total"'),
        (Metric("vllm:e2e_request_latency_seconds"), '__name__=~"vllm:e2e_request_latency_seconds_count|'
         'vllm:e2e_request_latency_seconds_sum"'),
    ],
)  # fmt: skip
def test_a_histogram_is_its_series_and_a_total_itself(metric: Metric, matcher: str) -> None:
    _, ((_, query),) = queries(replace(QUESTION, metrics=(metric,)), {})
    assert str(query).startswith(f"{{{matcher}, ")


def test_revisions_are_alternatives_and_a_backend_s_own_labels_are_in_each_query() -> None:
    identity, _ = queries(replace(QUESTION, revisions=("b2", "a.1")), {"cluster": "east"})
    assert f'{LABELS}, specdecode_revision=~"a\\\\.1|b2", cluster="east"}}' in str(identity)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ('chat"} or up{job="x', '"chat\\"} or up{job=\\"x"'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines", '"two\\nlines"'),
        ("gemäß", '"gemäß"'),
    ],
)
def test_a_name_can_not_end_its_quotes(name: str, quoted: str) -> None:
    identity, _ = queries(replace(QUESTION, name=name), {})
    assert f"specdecode_name={quoted}}}[" in str(identity)


def test_times_are_in_whole_milliseconds_as_prometheus_keeps_them() -> None:
    identity, _ = queries(replace(QUESTION, grid=replace(GRID, start=1000.00049, seconds=0.5, scrape_interval=0.1)), {})
    assert str(identity).endswith("[1700ms] @ 1001.500")


def test_pieces_cover_each_window_once() -> None:
    grid = replace(GRID, count=7)
    pieces = [piece.grid for piece in replace(QUESTION, grid=grid).pieces(3)]
    assert [piece.ends(window) for piece in pieces for window in range(piece.count)] == [
        grid.ends(window) for window in range(7)
    ]
