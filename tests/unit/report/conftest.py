"""Runs whose reports are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from specdecode_operator.report.case import Case, case_of

RECORD = Path(__file__).resolve().parents[3] / "examples" / "report" / "run.yaml"


@pytest.fixture(scope="session")
def record() -> list[dict[str, Any]]:
    """ConfigMaps of the example's run."""
    found: list[dict[str, Any]] = yaml.load(RECORD.read_text(), Loader=yaml.CSafeLoader)["items"]
    return found


@pytest.fixture(scope="session")
def case(record: list[dict[str, Any]]) -> Case:
    """The example's run."""
    return case_of(record)
