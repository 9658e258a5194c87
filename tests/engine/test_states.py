"""The page of states says what the command lists; tests that it or the engine's document names are there."""

import ast
import re
from pathlib import Path

import engine_states
import pytest
import wheels

from specdecode_engine import manifests

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCUMENTS / "engine-states.md"
TESTS = Path(__file__).parent


@pytest.mark.wheels
def test_the_page_says_what_the_command_lists() -> None:
    page = PAGE.read_text()
    assert engine_states.written(page, engine_states.both_lines()) == page


def test_every_test_that_is_named_is_there() -> None:
    named = {proof for proofs in engine_states.PROOFS.values() for proof in proofs}
    there = {f"{file}::{node.name}" for file in {p.partition("::")[0] for p in named} for node in _functions(file)}
    assert named - there == set()


def test_every_test_that_the_document_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCUMENTS / "engine.md").read_text()))
    there = {node.name for file in TESTS.glob("test_*.py") for node in _functions(file.name)}
    assert named
    assert named - there == set()


def _functions(file: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse((TESTS / file).read_text()).body if isinstance(node, ast.FunctionDef)]


def test_every_line_and_optimization_has_its_rows() -> None:
    rows = [line.split("|")[1:4] for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    wanted = {
        (o.name, line, tree)
        for line in wheels.LINES
        for o in manifests.load(line).optimizations
        for tree in (engine_states.RELEASE, engine_states.SERIES, engine_states.OFF, engine_states.EDITED)
    }
    assert {tuple(cell.strip() for cell in row) for row in rows} == wanted
    assert len(rows) == len(wanted)
