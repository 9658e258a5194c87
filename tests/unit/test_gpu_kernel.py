"""The kernel benchmark's cells, what it tries, and how it goes on when the process that asks the GPU dies."""

import json
import sys
from pathlib import Path

import pytest
from bench.gpu import kernel, raw

from specdecode_engine import decode_launch

MULTIPROCESSORS = 132

ASKED = """
import json, os, sys
asked = json.loads(sys.argv[1])
tell = lambda **line: print(json.dumps(line), flush=True)
tell(facts={"copy_bytes_per_second": 4e12})
print("INFO: not ours")
for at in asked["todo"]:
    tell(trying=[at, "bad"])
    if at == 1 and [at, "bad"] not in asked["banned"]:
        os._exit(70)
    tell(cell=at, final={"ours": [5.0, 7.0, 6.0], "fa3": [9.0], "2d": [20.0], "3d-16": [8.0]}, name="t64")
"""


@pytest.mark.parametrize("cell", kernel.GRID, ids=kernel.Cell.label)
def test_lengths_are_spread_up_to_the_longest(cell: kernel.Cell) -> None:
    lengths = cell.lengths()
    assert len(lengths) == cell.batch
    assert max(lengths) == cell.kv
    assert min(lengths) >= cell.kv // 8
    assert lengths == cell.lengths()


@pytest.mark.parametrize("cell", kernel.GRID, ids=kernel.Cell.label)
def test_launches_that_are_tried_differ_and_fit(cell: kernel.Cell) -> None:
    call = cell.call()
    tried = list(kernel.launches(cell, MULTIPROCESSORS))
    assert tried[0] == decode_launch.choose(call, multiprocessors=MULTIPROCESSORS, chained=True)
    assert len({kernel.label(launch) for launch in tried}) == len(tried)
    for launch in tried:
        assert launch.programs >= cell.batch
        buffers = launch.stages if launch.by_block else (launch.stages + 1) // 2
        tiles = buffers * 4 * launch.tile * call.padded_head
        assert 2 * call.padded_rows * call.padded_head + tiles <= decode_launch.SHARED_BYTES


def test_a_window_leaves_less_to_read() -> None:
    full, windowed = kernel.Cell(34816, 0, 3, True), kernel.Cell(34816, 1024, 3, True)
    assert full.seen_bytes() == 34816 * 1024
    assert windowed.seen_bytes() == 1026 * 1024


def test_a_process_that_dies_is_started_again_without_what_it_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    popen = kernel.subprocess.Popen
    monkeypatch.setattr(kernel, "GRID", kernel.GRID[:3])
    monkeypatch.setattr(kernel, "compiled", lambda environment: None)
    monkeypatch.setattr(
        kernel.subprocess, "Popen", lambda command, **rest: popen([sys.executable, "-c", ASKED, command[-1]], **rest)
    )
    assert kernel.main(["--out", str(tmp_path)]) == 0
    cells = json.loads((tmp_path / kernel.CELLS).read_text())
    assert [(cell["kv"], cell["causal"]) for cell in cells] == [(4096, True), (34816, True), (34816, False)]
    assert cells[0] | {"floor_us": 1.05, "fa3_us": 9.0, "upstream_us": 8.0, "ours_us": 6.0} == cells[0]
    ended = [line for line in raw.lines(tmp_path / kernel.RAW) if "ended" in line]
    assert ended == [{"ended": 70, "at": [1, "bad"]}]
