"""Writes the chart's dashboards and rules: `python -m specdecode_dashboards CHART`; with `--check` compares only."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from specdecode_dashboards import rules
from specdecode_dashboards.canary import canary
from specdecode_dashboards.decode import decode_path
from specdecode_dashboards.fleet import fleet
from specdecode_dashboards.operators import operator


def files() -> dict[str, str]:
    """Path in the chart -> text."""
    boards = {"fleet": fleet(), "decode-path": decode_path(), "canary": canary(), "operator": operator()}
    texts = {f"dashboards/{name}.json": _json(board) for name, board in boards.items()}
    return {**texts, "rules/specdecode.yaml": rules.text()}


def stale(chart: Path) -> list[str]:
    """Files of the chart that aren't what they should be, or shouldn't be there."""
    wanted = files()
    there = {str(path.relative_to(chart)) for part in ("dashboards", "rules") for path in (chart / part).glob("*")}
    changed = {name for name, text in wanted.items() if name in there and (chart / name).read_text() != text}
    return sorted(changed | there ^ set(wanted))


def _json(board: Dashboard) -> str:
    return json.dumps(board, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """1 if `--check` finds a stale file."""
    parser = argparse.ArgumentParser(prog="specdecode_dashboards", description=__doc__)
    parser.add_argument("chart", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing")
    chosen = parser.parse_args()
    if chosen.check:
        found = stale(chosen.chart)
        for name in found:
            print(f"{chosen.chart / name} isn't what dashboards/ makes: run `make dashboards`", file=sys.stderr)
        return 1 if found else 0
    for name, text in files().items():
        (chosen.chart / name).parent.mkdir(exist_ok=True)
        (chosen.chart / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
