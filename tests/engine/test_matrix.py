"""What `make engine-matrix` compares, and that its expectations fail when they should."""

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from engine_matrix import __main__ as matrix
from engine_matrix import forked, image, quick, report, variants, workload
from engine_matrix.kept import Kept
from engine_matrix.report import Run
from engine_matrix.variants import Variant
from engine_matrix.workload import Result

CARRIED = ("prefix-cache-tail", "splitkv-decode", "telemetry")
SPANS = (
    "propose_host",
    "drafter_gpu",
    "propose_gpu",
    "draft_rebuild_host",
    "input_prep_host",
    "target_forward_gpu",
    "probe_host",
    "probe_device",
)
TOKENS = [[1, 2], [3, 4], [5, 6], [5, 6]]
COUNTS = {"drafts": 9.0, "draft tokens": 27.0, "accepted 0": 8.0, "accepted 1": 5.0, "accepted 2": 2.0, "finished": 3.0}


def stock() -> Run:
    result = Result(tokens=TOKENS, cached=[0, 0, 64, 0], own=dict(COUNTS))
    return Run("0.30.0", "hybrid", "dspark", Variant("stock", frozenset()), result)


def patched(**changed: object) -> Run:
    """The whole series, as it should be but for what is changed."""
    result = Result(
        tokens=TOKENS,
        cached=[0, 0, 128, 0],
        own=dict(COUNTS),
        ours=dict(COUNTS),
        spans={span: [9.0, 0.1] for span in SPANS},
        states=dict.fromkeys(CARRIED, "active"),
    )
    variant = Variant("all", frozenset(CARRIED), whole=True)
    return Run("0.30.0", "hybrid", "dspark", variant, dataclasses.replace(result, **changed))


def failures(run: Run) -> list[str]:
    return report.failures([stock(), run], {"0.30.0": CARRIED})


def test_what_is_as_it_should_be_does_not_fail() -> None:
    assert failures(patched()) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tokens": [[1, 2], [3, 5], *TOKENS[2:]]}, "tokens differ in prompt 1 from token 1: 4 and 5"),
        ({"tokens": [[1], *TOKENS[1:]]}, "tokens differ in prompt 0: 2 and 1 tokens"),
        ({"tokens": [*TOKENS[:2], [5, 7], [5, 6]]}, "tokens differ in prompt 2 from token 1: 6 and 7"),
        ({"cached": [0, 0, 64, 0]}, "expected more than stock's"),
        ({"cached": [0, 0, 0, 0]}, "expected more than stock's"),
        ({"ours": {**COUNTS, "accepted 2": 3.0}}, "our counters"),
        ({"spans": {**{span: [9.0, 0.1] for span in SPANS}, "drafter_gpu": [0.0, 0.0]}}, "no sample of drafter_gpu"),
        ({"states": {**dict.fromkeys(CARRIED, "active"), "telemetry": "disabled"}}, "telemetry is disabled"),
    ],
)
def test_each_expectation_fails_when_it_does_not_hold(changed: dict[str, object], said: str) -> None:
    (failure,) = failures(patched(**changed))
    assert said in failure


def test_a_longer_hit_is_not_compared_where_stock_differs_from_itself_without_its_cache() -> None:
    noisy, run = stock(), patched(tokens=[*TOKENS[:2], [5, 7], [5, 9]])
    noisy.result.tokens = [*TOKENS[:2], [5, 6], [5, 9]]
    assert report.failures([noisy, run], {"0.30.0": CARRIED}) == []
    run.result.tokens = [*TOKENS[:2], [5, 7], [5, 8]]
    (failure,) = report.failures([noisy, run], {"0.30.0": CARRIED})
    assert "prompt 2" in failure


def test_a_hit_that_stock_answers_wrong_may_be_answered_right() -> None:
    wrong = stock()
    wrong.result.tokens = [*TOKENS[:2], [5, 7], [5, 6]]
    run = patched(cached=wrong.result.cached)
    run = dataclasses.replace(run, variant=dataclasses.replace(run.variant, disabled=frozenset({"prefix-cache-tail"})))
    run.result.states["prefix-cache-tail"] = "disabled"
    assert report.failures([wrong, run], {"0.30.0": CARRIED}) == []
    run.result.tokens = [*TOKENS[:2], [5, 8], [5, 6]]
    (failure,) = report.failures([wrong, run], {"0.30.0": CARRIED})
    assert "prompt 2" in failure


def test_an_optimization_that_is_off_must_not_act() -> None:
    run = patched()
    off = dataclasses.replace(run.variant, name="all, off", disabled=frozenset({"prefix-cache-tail", "telemetry"}))
    states = {**run.result.states, "prefix-cache-tail": "disabled", "telemetry": "disabled"}
    run = dataclasses.replace(run, variant=off, result=dataclasses.replace(run.result, states=states))
    assert [sentence.split(": ")[1].split(" ")[0] for sentence in failures(run)] == ["cached", "samples"]
    quiet = dataclasses.replace(run.result, cached=[0, 0, 64, 0], spans={})
    assert failures(dataclasses.replace(run, result=quiet)) == []


def test_every_patch_is_run_alone_and_switched_off() -> None:
    found = list(variants.of(CARRIED, quick=False))
    assert found[0] == Variant("stock", frozenset())
    alone = {variant.patches for variant in found if len(variant.patches) == 1}
    assert alone == {frozenset({name}) for name in CARRIED}
    assert {variant.disabled for variant in found if variant.whole} == {
        frozenset(),
        *(frozenset({name}) for name in CARRIED),
    }


def test_what_tells_most_is_run_first() -> None:
    ordered = sorted(variants.of(CARRIED, quick=False), key=lambda variant: variant.worth)
    assert [variant.name for variant in ordered] == [
        "stock",
        *(f"{name} alone" for name in CARRIED),
        "all",
        *(f"all, {name} off" for name in CARRIED),
        "stock again",
    ]


class Engines:
    """Stands for an image of a line, and for how its engines are asked; one that is told to ends after so many."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        self.ran: list[str] = []
        self.ends_after: int | None = None

    def carried(self) -> list[str]:
        return list(CARRIED)

    def ask(
        self, _: object, target: str, drafter: str, missing: Sequence[Variant], *__: object
    ) -> Iterator[tuple[Variant, Result]]:
        for variant in missing:
            if self.ends_after == len(self.ran):
                raise RuntimeError("ended")
            self.ran.append(f"{target}+{drafter} {variant.name}")
            yield variant, dataclasses.replace(patched().result, states={}, spans={})


def test_a_matrix_that_was_ended_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines = Engines("image@sha256:1")
    monkeypatch.setattr(matrix, "_forked", engines.ask)
    asked = argparse.Namespace(out=tmp_path, page=None, quick=True, forked=True, tokens=8)
    engines.ends_after = 2
    with pytest.raises(RuntimeError):
        matrix.run({"0.30.0": engines}, asked)  # type: ignore[dict-item]
    begun, engines.ran, engines.ends_after = engines.ran, [], None
    matrix.run({"0.30.0": engines}, asked)  # type: ignore[dict-item]
    assert [*begun, *engines.ran] == [f"hybrid+dspark {v.name}" for v in variants.of(CARRIED, quick=True)]
    assert len(json.loads((tmp_path / "results.json").read_text())["runs"]) == len(begun) + len(engines.ran)


@pytest.mark.parametrize("changed", [{"image": "image@sha256:2"}, {"tokens": 9}])
def test_what_another_image_said_or_was_asked_is_not_taken(tmp_path: Path, changed: dict[str, object]) -> None:
    asked: dict[str, object] = {"image": "image@sha256:1", "tokens": 8}
    run = patched()
    Kept(tmp_path, run.line, asked).save(run)
    assert Kept(tmp_path, run.line, asked).load(run.target, run.drafter, run.variant) == run
    assert Kept(tmp_path, run.line, {**asked, **changed}).load(run.target, run.drafter, run.variant) is None


def test_an_engine_that_was_forked_is_read_as_one_behind_a_server() -> None:
    said = {"variant": "all", "tokens": [[1]], "cached": [0], "metrics": 'specdecode_drafts_total{engine="0"} 9.0\n'}
    (found,) = quick.results(["loading\n", f"{forked.SAID}{json.dumps(said)}\n"])
    assert found == ("all", Result(tokens=[[1]], cached=[0], ours={"drafts": 9.0}))


def test_a_part_of_the_series_runs_without_the_check_that_it_would_not_pass() -> None:
    for variant in variants.of(CARRIED, quick=False):
        assert ("VLLM_PLUGINS" in variants.environment(variant)) is not variant.whole


@pytest.mark.parametrize(
    ("config", "variables"),
    [
        ({"Env": ["PATH=/opt/vllm/bin:/bin", "OPTIONS=a=b"]}, {"PATH": "/opt/vllm/bin:/bin", "OPTIONS": "a=b"}),
        ({}, {}),
    ],
)
def test_an_engine_runs_with_the_variables_of_its_image(config: dict[str, object], variables: dict[str, str]) -> None:
    inspected = json.dumps({"Container": "engine", "OCIv1": {"os": "linux", "config": config}})
    assert image.environment(inspected) == variables


def test_the_counters_of_an_engine_are_read_from_its_metrics() -> None:
    result = Result()
    workload.counters(
        result,
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 9.0\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 5.0\n'
        'vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0\n'
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1.0\n'
        'specdecode_drafts_total{engine="0",model_name="m"} 9.0\n'
        'specdecode_accepted_tokens_total{engine="0",model_name="m",position="1"} 5.0\n'
        'specdecode_accepted_tokens_total{engine="0",model_name="m",position="7"} 0.0\n'
        'specdecode_propose_host_seconds_count{engine="0",model_name="m",step="decode",batch="1"} 4.0\n'
        'specdecode_propose_host_seconds_count{engine="0",model_name="m",step="mixed",batch="all"} 1.0\n'
        'specdecode_propose_host_seconds_sum{engine="0",model_name="m",step="decode",batch="1"} 0.5\n'
        'specdecode_optimization_info{engine="0",model_name="m",optimization="telemetry",state="active"} 1.0\n',
    )
    assert result.own == {"drafts": 9.0, "accepted 1": 5.0, "finished": 3.0}
    assert result.ours == {"drafts": 9.0, "accepted 1": 5.0}
    assert result.spans == {"propose_host": [5.0, 0.5]}
    assert result.states == {"telemetry": "active"}


ROW = "| 0.30.0 | hybrid + dspark | all | 2 | equal | 0 0 128 0 | 2.67 (0.89 0.56 0.22; 9 drafts) | yes |"


def test_the_table_has_a_row_an_engine() -> None:
    lines = report.table([stock(), patched()]).splitlines()
    assert len(lines) == 4
    assert lines[-1] == ROW


def test_a_page_keeps_the_rows_of_engines_that_were_not_run_again() -> None:
    before = report.table([stock(), patched(tokens=[[9], [9], [9], [9]])])
    page = report.kept(f"# Title\n\n{before}\n* A note.\n", [patched()])
    assert page == f"# Title\n\n{report.table([stock(), patched()])}\n* A note.\n"
    assert ROW in report.kept("# Title\n", [patched()])
