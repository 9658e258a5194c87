"""The chart has what dashboards/ makes, and each dashboard says what a person needs to read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from committed import BOARDS, CHART, board, targets, variables

from specdecode_dashboards import __main__ as generator

LARGEST = 1 << 20
"""Bytes that a ConfigMap may hold."""


def panels() -> list[Any]:
    return [pytest.param(panel, id=f"{name}: {panel['title']}") for name in BOARDS for panel in board(name)["panels"]]


def test_the_chart_has_what_the_description_makes() -> None:
    assert generator.stale(CHART) == []


def test_a_file_that_was_edited_or_left_behind_is_named(tmp_path: Path) -> None:
    for name, text in generator.files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert generator.stale(tmp_path) == []
    (tmp_path / "dashboards/fleet.json").write_text("{}")
    (tmp_path / "dashboards/old.json").write_text("{}")
    (tmp_path / "rules/specdecode.yaml").unlink()
    assert generator.stale(tmp_path) == ["dashboards/fleet.json", "dashboards/old.json", "rules/specdecode.yaml"]


@pytest.mark.parametrize("panel", panels())
def test_a_panel_says_what_it_shows_and_in_what_unit(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["targets"]
    if panel["type"] in ("timeseries", "stat", "bargauge"):
        assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_on_the_grid_without_gaps_or_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board(name)["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        taken |= cells
    assert max(x for x, _ in taken) == 23
    assert len(taken) == 24 * (1 + max(y for _, y in taken)), "each row of panels is as wide as the page"


@pytest.mark.parametrize("name", BOARDS)
def test_every_variable_in_a_query_can_be_chosen(name: str) -> None:
    offered = {*variables(name), "__rate_interval"}
    used = {found for one in targets() if one.board == name for found in re.findall(r"\$(\w+)", one.expr)}
    assert used <= offered
    assert variables(name).keys() <= used | set(re.findall(r"\$(\w+)", " ".join(variables(name).values())))


def test_links_lead_to_our_dashboards() -> None:
    uids = {board(name)["uid"] for name in BOARDS}
    linked = set()
    for name in BOARDS:
        assert [link["tags"] for link in board(name)["links"]] == [["specdecode"]]
        assert "specdecode" in board(name)["tags"]
        linked |= set(re.findall(r"/d/([\w-]+)\?", str(board(name)["panels"])))
    assert linked == {"specdecode-canary", "specdecode-decode-path"}
    assert linked <= uids


def test_a_dashboard_fits_a_configmap() -> None:
    assert all(len(text) < LARGEST for text in generator.files().values())
