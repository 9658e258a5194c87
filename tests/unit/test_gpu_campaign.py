"""The GPU campaign with small programs for its engines: what is kept when one of them fails, or time is up."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from bench.gpu import __main__ as program
from bench.gpu import campaign, raw
from bench.gpu.arms import Arm
from bench.gpu.campaign import ENDING, Clock, Process, Round

READY = 'print(json.dumps({"seconds": 1.0, "facts": {"device": "none"}}), flush=True)'
ANSWER = 'print(json.dumps([{"cached": 1, "first": 0.1, "steps": [0.004], "emitted": [3], "spans": {}}]), flush=True)'
ENGINE = f"import json, sys\n{READY}\nfor line in sys.stdin: {ANSWER}"
NEVER_READY = "import sys; sys.exit('no such device')"
ENDS_AT_THE_SECOND = f"import json, sys\n{READY}\ninput()\n{ANSWER}\ninput(); sys.exit('out of memory')"
SILENT = f"import json, sys\n{READY}\nfor line in sys.stdin: pass"

HEAD = {"format": raw.FORMAT, "line": "0.33.0", "method": "dspark", "round": 0, "seed": 1}


def run(
    folder: Path, engines: dict[str, str], *, sweeps: int = 2, at_once: int = 8, clock: Clock | None = None
) -> raw.Round:
    """A round of arms that are these programs."""

    def start(arm: Arm) -> AbstractContextManager[Process]:
        return campaign.started(arm, [sys.executable, "-c", engines[arm.name]], os.environ, folder / f"{arm.name}.log")

    file = folder / "raw.json.gz"
    wanted = [Arm(name, "stock") for name in engines]
    Round(HEAD, file, clock or Clock(time.monotonic(), 600)).run(wanted, start, at_once=at_once, sweeps=sweeps)
    return raw.read(file)


@pytest.mark.parametrize("at_once", [1, 8])
def test_every_engine_is_visited_out_and_back_in_each_sweep(tmp_path: Path, at_once: int) -> None:
    found = run(tmp_path, {"stock": ENGINE, "series": ENGINE}, at_once=at_once)
    assert found.head == HEAD
    assert set(found.ready) == {"stock", "series"}
    order = [visit["visit"]["arm"] for visit in found.visits]
    assert len(order) == 8
    assert order[:4] == order[:4][::-1]
    assert found.visits[0]["requests"][0]["steps"] == [0.004]


def test_an_engine_that_does_not_start_is_left_out_and_its_last_words_are_kept(tmp_path: Path) -> None:
    found = run(tmp_path, {"stock": ENGINE, "series": NEVER_READY})
    assert "no such device" in found.failed["series"]
    assert {visit["visit"]["arm"] for visit in found.visits} == {"stock"}


def test_an_engine_that_ends_ends_the_round_and_what_was_measured_is_kept(tmp_path: Path) -> None:
    found = run(tmp_path, {"stock": ENDS_AT_THE_SECOND}, sweeps=3)
    assert len(found.visits) == 1
    assert "out of memory" in found.failed["stock"]


def test_no_visit_is_begun_that_might_not_end_in_time(tmp_path: Path) -> None:
    ticks = itertools.count(step=10.0)
    clock = Clock(0.0, 600.0, lambda: next(ticks))
    found = run(tmp_path, {"stock": ENGINE}, sweeps=1000, clock=clock)
    assert 3 < len(found.visits) < 30
    assert found.failed == {}
    assert clock.left() > 0


def test_an_engine_that_is_not_ready_once_time_is_up_is_given_up(tmp_path: Path) -> None:
    found = run(tmp_path, {"stock": NEVER_READY}, clock=Clock(time.monotonic(), ENDING))
    assert found.visits == []
    assert set(found.failed) == {"stock"}


def test_an_engine_that_does_not_answer_in_time_is_given_up(tmp_path: Path) -> None:
    with campaign.started(
        Arm("stock", "stock"), [sys.executable, "-c", SILENT], os.environ, tmp_path / "log"
    ) as engine:
        engine.answer(60.0)
        with pytest.raises(campaign.Ended, match="stock: no answer within 0 s"):
            engine.answer(0.0)
        process = engine.process
    assert process.returncode is not None


# --- raw files ------------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_off_says_what_came_before(tmp_path: Path) -> None:
    file = tmp_path / "raw.json.gz"
    visit = {"visit": {"sweep": 0}, "requests": []}
    for line in (HEAD, visit, visit):
        raw.add(file, line)
    whole = file.read_bytes()
    assert len(raw.read(file).visits) == 2
    for cut in (1, 9, 30):
        file.write_bytes(whole[:-cut])
        assert raw.read(file).visits == [visit], cut


def test_a_file_of_something_else_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "other.json.gz"
    raw.add(file, {"format": 0})
    with pytest.raises(ValueError, match=r"other\.json\.gz: not the raw file"):
        raw.read(file)


def test_a_further_run_is_the_next_round_of_its_line_and_method(tmp_path: Path) -> None:
    assert raw.next_round(tmp_path, "0.33.0", "dspark") == 0
    for line, method, round in (("0.33.0", "dspark", 0), ("0.33.0", "dspark", 1), ("0.33.0", "dflash", 4)):
        raw.add(raw.path(tmp_path, line, method, round), HEAD)
    assert raw.next_round(tmp_path, "0.33.0", "dspark") == 2
    assert raw.next_round(tmp_path, "0.30.0", "dspark") == 0


# --- trees ----------------------------------------------------------------------------------------------------------


def test_a_tree_that_is_not_what_it_is_called_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site"
    (site / "vllm-0.33.0.dist-info").mkdir(parents=True)
    out = tmp_path / "out"
    asked = ["--stock", str(site), "--patched", str(site), "--line", "0.33.0", "--method", "dspark", "--out", str(out)]
    assert program.main(asked) == program.NOT_STOCK_OR_SERIES
    assert "missing file" in capsys.readouterr().err
    assert not out.exists()


def test_an_engine_imports_its_own_tree_and_this_bench_and_nothing_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere/engine_patches")
    found = program.environment(Arm("less telemetry", "patched", ("telemetry",)), tmp_path)
    assert found["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), str(program.TESTS)]
    assert found["SPECDECODE_DISABLE"] == "telemetry"
    assert (program.TESTS / "bench" / "gpu").is_dir()


def test_what_goes_to_an_engine_is_one_line_of_json(tmp_path: Path) -> None:
    echo = "import json, sys\nprint(json.dumps([sys.stdin.readline().count('round')]), flush=True)"
    arm = Arm("stock", "stock")
    with campaign.started(arm, [sys.executable, "-c", echo], os.environ, tmp_path / "log") as engine:
        assert json.dumps(engine.ask(campaign.Visit(0, 0, 0, "stock"), 60.0)) == "[1]"
