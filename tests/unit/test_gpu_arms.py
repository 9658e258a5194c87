"""The GPU campaign's pure part: which engines are compared, in which order, and what follows from raw files."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench.gpu import __main__ as program
from bench.gpu import arms, models, ratios, raw, report
from bench.gpu.arms import Arm, Comparison, Visit

SWITCHABLE = ("mtp-fused-metadata", "splitkv-decode", "telemetry")
NAMES = ("stock", "stock again", "series", "less telemetry")


def test_each_optimization_that_the_drafters_reach_is_switched_off_by_itself() -> None:
    found = arms.arms(SWITCHABLE)
    assert found == [
        Arm("stock", "stock"),
        Arm("stock again", "stock"),
        Arm("series", "patched"),
        Arm("less splitkv-decode", "patched", ("splitkv-decode",)),
        Arm("less telemetry", "patched", ("telemetry",)),
    ]


def test_an_optimization_alone_has_all_others_off() -> None:
    found = {arm.name: arm for arm in arms.arms(SWITCHABLE, each_alone=True)}
    assert set(found["telemetry alone"].disabled) == {"mtp-fused-metadata", "splitkv-decode"}
    assert set(found["all off"].disabled) == set(SWITCHABLE)


def test_every_arm_is_compared_with_what_it_differs_from_in_one_thing() -> None:
    every = arms.arms(SWITCHABLE, each_alone=True)
    disabled = {arm.name: set(arm.disabled) for arm in every}
    found = arms.comparisons([arm.name for arm in every])
    assert {each.arm for each in found} | {each.against for each in found} == set(disabled)
    for each in found:
        if each.against != "stock":
            assert len(disabled[each.against] ^ disabled[each.arm]) == 1, each


def test_a_comparison_needs_both_of_its_arms() -> None:
    assert arms.comparisons(["series", "less telemetry"]) == [
        Comparison("telemetry, added last", "series", "less telemetry")
    ]


def sweeps(count: int, *, seed: int = 1, round: int = 0) -> list[Visit]:
    return list(islice(arms.visits(NAMES, seed=seed, round=round), 2 * len(NAMES) * count))


def test_a_sweep_comes_back_in_reverse_so_that_a_drift_cancels() -> None:
    for sweep in range(5):
        order = [visit.arm for visit in sweeps(5) if visit.sweep == sweep]
        assert order == order[::-1]
        assert Counter(order) == dict.fromkeys(NAMES, 2)


def test_the_order_is_the_seeds_and_differs_between_sweeps_and_rounds() -> None:
    def orders(visits: list[Visit]) -> set[tuple[str, ...]]:
        each = len(NAMES)
        return {tuple(visit.arm for visit in visits[at : at + each]) for at in range(0, len(visits), 2 * each)}

    assert sweeps(8) == sweeps(8)
    assert sweeps(8) != sweeps(8, seed=2)
    assert [v.arm for v in sweeps(8)] != [v.arm for v in sweeps(8, round=1)]
    assert len(orders(sweeps(8))) > 4


def test_nobody_is_visited_without_engines() -> None:
    assert list(arms.visits([], seed=1, round=0)) == []


def test_arms_are_asked_the_same_and_no_engine_the_same_twice() -> None:
    visit = Visit(round=0, sweep=3, leg=1, arm="stock")
    other = dataclasses.replace(visit, arm="series")
    assert arms.tail(1, visit, 0) == arms.tail(1, other, 0)
    assert len(arms.tail(1, visit, 0)) == arms.TAIL
    assert len(arms.prefix(1)) == arms.PREFIX
    tails = {
        tuple(arms.tail(1, dataclasses.replace(visit, sweep=sweep, leg=leg), request)[:8])
        for sweep in range(3)
        for leg in (0, 1)
        for request in range(5)
    }
    assert len(tails) == 30
    assert max(arms.prefix(1)) < arms.MASK


@pytest.mark.parametrize("method", arms.DRAFTED)
def test_a_drafter_reads_layers_of_the_target_and_shares_its_vocabulary(tmp_path: Path, method: str) -> None:
    models.write(tmp_path, method)
    target, drafter = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("target", method))
    assert target["num_hidden_layers"] == len(target["hybrid_override_pattern"])
    assert max(drafter["target_layer_ids"]) < target["num_hidden_layers"] == drafter["num_target_layers"]
    assert drafter["dflash_config"]["target_layer_ids"] == drafter["target_layer_ids"]
    assert drafter["vocab_size"] == target["vocab_size"] == drafter["mask_token_id"] + 1
    assert drafter["hidden_size"] == target["hidden_size"]


# --- ratios ---------------------------------------------------------------------------------------------------------


def test_a_ratio_without_noise_is_the_ratio() -> None:
    found = ratios.ratio({0: [math.log(1.25)] * 4, 1: [math.log(1.25)] * 3})
    assert found is not None
    assert found.ratio == pytest.approx(1.25)
    assert found.interval == pytest.approx((1.25, 1.25))
    assert (found.sweeps, found.rounds) == (7, 2)


def test_one_sweep_has_no_interval_and_none_has_no_ratio() -> None:
    found = ratios.ratio({0: [0.0], 1: []})
    assert found == ratios.Ratio(1.0, None, 1, 1)
    assert ratios.ratio({0: []}) is None


def test_intervals_hold_the_truth_about_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ratios, "DRAWS", 400)
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        found = ratios.ratio({0: rng.normal(math.log(0.9), 0.02, 12).tolist()})
        assert found is not None
        assert found.interval is not None
        held += found.interval[0] <= 0.9 <= found.interval[1]
    assert 175 <= held <= 200


def test_starts_that_differ_widen_the_interval() -> None:
    rng = np.random.default_rng(5)
    together = rng.normal(0.0, 0.001, 18)
    apart = together.reshape(3, 6) + np.array([-0.02, 0.0, 0.02])[:, None]
    one = ratios.ratio({0: apart.ravel().tolist()})
    three = ratios.ratio({at: row.tolist() for at, row in enumerate(apart)})
    assert one is not None
    assert three is not None
    assert one.interval is not None
    assert three.interval is not None
    assert three.interval[1] - three.interval[0] > 1.5 * (one.interval[1] - one.interval[0])


# --- report ---------------------------------------------------------------------------------------------------------


def requests(step: float, *, first: float = 0.1, cached: int = 31_680, propose: float = 3e-4) -> list[dict[str, Any]]:
    """Of one visit: a bare one, and two timed ones whose steps took far longer."""
    bare = {"cached": cached, "first": first, "steps": [step] * 8, "emitted": [3] * 8, "spans": {}}
    spans = {
        "propose_host": [propose] * 4,
        "propose_gpu": [6e-4] * 4,
        "drafter_gpu": [5e-4] * 4,
        "prepare_inputs_host": [5e-4] * 4,
        "prepare_attn_host": [1e-3] * 4,
    }
    timed = {**bare, "first": 9.0, "steps": [9.0], "emitted": [3], "spans": spans}
    return [bare, timed, timed]


def campaign(step: dict[str, float], *, drift: float = 0.0, sweeps: int = 3, line: str = "0.33.0") -> raw.Round:
    """A round in which the machine takes `drift` longer with each visit."""
    head = {
        "line": line,
        "method": "dspark",
        "round": 0,
        "begun": "2026-01-01T00:00:00Z",
        "trees": {"manifest_digest": "ab" * 32},
    }
    found = raw.Round(head, ready={name: {"facts": {"device": "a GPU"}} for name in step})
    order = islice(arms.visits(list(step), seed=1, round=0), 2 * len(step) * sweeps)
    for at, visit in enumerate(order):
        asked = requests(step[visit.arm] * math.exp(drift * at))
        found.visits.append({"visit": dataclasses.asdict(visit), "requests": asked})
    return found


STEP = next(metric for metric in report.METRICS if metric.of == "step")
SERIES = Comparison("series", "series", "stock")


def metric(of: str) -> report.Metric:
    return next(each for each in report.METRICS if each.of == of)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("cached", 31_680),
        ("first", 100.0),
        ("rate", 750.0),
        ("step", 4.0),
        ("propose_host", 0.3),
        ("propose_gpu", 0.6),
        ("drafter_gpu", 0.5),
        ("input_prep_host", 1.5),
    ],
)
def test_what_a_client_sees_comes_from_bare_requests_and_spans_from_timed_ones(of: str, expected: float) -> None:
    assert report.value(requests(4e-3), metric(of)) == pytest.approx(expected)


def test_one_request_that_stutters_moves_no_visit_and_a_periodic_cost_does() -> None:
    quiet = requests(4e-3)[0]
    hiccup, periodic = {**quiet, "steps": [4e-3] * 7 + [5e-2]}, {**quiet, "steps": [4e-3] * 7 + [4.8e-3]}
    assert report.value([quiet, hiccup, quiet], STEP) == pytest.approx(4.0)
    assert report.value([periodic] * 3, STEP) == pytest.approx(4.1)


def test_a_span_that_no_step_had_is_no_value() -> None:
    bare, timed, _ = requests(4e-3)
    del timed["spans"]["drafter_gpu"], timed["spans"]["prepare_attn_host"]
    assert report.value([bare, timed], metric("drafter_gpu")) is None
    assert report.value([bare, timed], metric("input_prep_host")) is None


def test_a_drift_of_the_machine_is_no_difference_of_the_arms() -> None:
    drifting = campaign({"stock": 4e-3, "stock again": 4e-3, "series": 3.6e-3}, drift=0.01)
    found = report.compared(report.values([drifting], STEP), SERIES)
    assert found is not None
    assert found.ratio == pytest.approx(0.9, rel=1e-9)
    assert found.interval == pytest.approx((0.9, 0.9))


def test_a_sweep_that_was_broken_off_is_not_compared() -> None:
    whole = campaign({"stock": 4e-3, "series": 3.6e-3}, sweeps=3)
    whole.visits.pop()
    found = report.compared(report.values([whole], STEP), SERIES)
    assert found is not None
    assert found.sweeps == 2


def test_files_of_one_number_are_starts_of_their_own() -> None:
    rounds = [campaign({"stock": 4e-3, "series": 3.6e-3}), campaign({"stock": 8e-3, "series": 7.2e-3})]
    found = report.compared(report.values(rounds, STEP), SERIES)
    assert found is not None
    assert (found.sweeps, found.rounds) == (6, 2)
    assert found.ratio == pytest.approx(0.9)


def test_the_report_has_a_row_an_arm_and_a_row_a_comparison() -> None:
    measured = campaign({"stock": 4e-3, "series": 3.6e-3})
    measured.failed["less telemetry"] = "Traceback\nOutOfMemoryError: none left"
    lines = report.report([measured, campaign({"stock": 5e-3}, line="0.30.0")]).splitlines()
    assert [line for line in lines if line.startswith("###")] == [
        "### vLLM 0.30.0, dspark, K=3",
        "### vLLM 0.33.0, dspark, K=3",
    ]
    assert "| stock | 6 | 31680 | 100.00 | 750.0 | 4.000 | 1.500 | 0.300 | 0.600 | 0.500 |" in lines
    (row,) = [line for line in lines if line.startswith("| series | series / stock | 3 |")]
    assert row.split(" | ")[3:6] == ["1.0000 [1.0000, 1.0000]", "1.1111 [1.1111, 1.1111]", "0.9000 [0.9000, 0.9000]"]
    assert lines[-1] == "Round 0: less telemetry failed: OutOfMemoryError: none left"


def test_for_machines_each_arm_is_a_row_of_the_same_figures() -> None:
    found = report.rows([campaign({"stock": 4e-3, "series": 3.6e-3}), campaign({"stock": 5e-3}, line="0.30.0")])
    assert [(row["line"], row["drafter"], row["arm"]) for row in found] == [
        ("0.30.0", "dspark", "stock"),
        ("0.33.0", "dspark", "stock"),
        ("0.33.0", "dspark", "series"),
    ]
    figures = {key: found[1][key] for key in ("cached_tokens", "hit_ttft_ms", "decode_tok_s", "propose_host_ms")}
    assert figures == {"cached_tokens": 31680, "hit_ttft_ms": 100.0, "decode_tok_s": 750.0, "propose_host_ms": 0.3}
    assert (found[1]["drafter_gpu_ms"], found[1]["run"]) == (0.5, "2026-01-01T00:00:00Z")
    assert found[2]["decode_tok_s"] == 833.3


# --- the program ----------------------------------------------------------------------------------------------------


def test_a_dry_run_shows_engines_comparisons_and_schedule_and_starts_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = ["--dry-run", "--line", "0.30.0", "--method", "dflash", "--out", str(tmp_path / "out")]
    assert program.main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "engine   less telemetry: patched, without telemetry" in lines
    assert "compare  telemetry, added last: series / less telemetry" in lines
    assert len([line for line in lines if line.startswith("visit ")]) == 4 * len(
        [line for line in lines if line.startswith("engine ")]
    )
    assert not (tmp_path / "out").exists()


def test_what_is_missing_or_unknown_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        program.main(["--line", "0.33.0", "--method", "dspark"])
    assert "--stock, --patched, --out" in capsys.readouterr().err
    asked = ["--dry-run", "--line", "0.33.0", "--method", "dspark", "--out", str(tmp_path), "--arms", "warp"]
    with pytest.raises(SystemExit, match=r"no warp on 0\.33\.0; there are stock, stock again, series"):
        program.main(asked)
