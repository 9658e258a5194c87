"""A decode step's trace, taken apart: host phases, device work, what the device waits for, and spans by kernels."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from bench.gpu import profile
from bench.gpu.profile import Part

STEP = 1000.0


def span(category: str, name: str, start: float, length: float, **args: int) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": args}


def step(at: int) -> list[dict[str, Any]]:
    """A step of 900 us and 100 us until the next: 300 us of preparation, then a propose that launches two kernels."""
    begin = at * STEP
    return [
        span("user_annotation", "step", begin, 900),
        span("user_annotation", "prepare inputs", begin + 100, 300),
        span("user_annotation", "propose", begin + 500, 200),
        span("user_annotation", "drafter", begin + 600, 50),
        span("cuda_driver", "cuLaunchKernelEx", begin + 510, 5, correlation=2 * at),
        span("cuda_runtime", "cudaGraphLaunch", begin + 610, 5, correlation=2 * at + 1),
        span("kernel", "prepare", begin + 520, 30, correlation=2 * at),
        span("kernel", "draft", begin + 620, 200, correlation=2 * at + 1),
        span("kernel", "draft", begin + 800, 50, correlation=2 * at + 1),
    ]


def trace(steps: int) -> dict[str, Any]:
    marks = [{"ph": "i", "name": "a mark", "ts": 0.0}]
    return {"traceEvents": marks + [event for at in range(steps) for event in step(at)]}


def test_a_step_is_taken_apart() -> None:
    found = profile.profile(trace(12))
    assert found.steps == 12 - 2 * profile.EDGE
    assert found.step == pytest.approx((4 * STEP - 100) / 4)
    assert found.busy == pytest.approx(30 + 230)
    assert found.host["step"] == pytest.approx(900)
    assert found.host["propose"] == pytest.approx(200)
    assert found.own["step"] == pytest.approx(900 - 300 - 200)
    assert found.own["propose"] == pytest.approx(150)
    assert found.own[profile.OUTSIDE] == pytest.approx(3 * 100 / 4)
    assert found.kernels == pytest.approx({"draft": 250, "prepare": 30})
    assert found.launches == pytest.approx({"draft": 2, "prepare": 1})


def test_idle_time_has_the_name_of_what_the_host_was_in() -> None:
    found = profile.profile(trace(12))
    assert found.idle["prepare inputs"] == pytest.approx(300)
    # 500..520 before the first kernel and 550..620 before the second, 20 us of which the drafter's launch takes
    assert found.idle["propose"] == pytest.approx(20 + 50)
    assert found.idle["drafter"] == pytest.approx(20)
    assert sum(found.idle.values()) == pytest.approx(found.step - found.busy)
    assert sum(found.own.values()) == pytest.approx(found.step)


def test_a_phases_span_on_the_device_is_that_of_what_it_launched() -> None:
    found = profile.profile(trace(12))
    assert found.spans["propose"] == pytest.approx(850 - 520)
    assert found.spans["drafter"] == pytest.approx(230)
    assert "prepare inputs" not in found.spans


def test_a_trace_with_too_few_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="no step left"):
        profile.profile(trace(2 * profile.EDGE))


def test_leaves_cover_every_moment_once() -> None:
    phases = [Part("a", 1, 9), Part("b", 2, 5), Part("c", 3, 4), Part("d", 5, 6)]
    found = list(profile.leaves(phases, 0, 10))
    assert [(leaf.name, leaf.start, leaf.end) for leaf in found] == [
        (profile.OUTSIDE, 0, 1),
        ("a", 1, 2),
        ("b", 2, 3),
        ("c", 3, 4),
        ("b", 4, 5),
        ("d", 5, 6),
        ("a", 6, 9),
        (profile.OUTSIDE, 9, 10),
    ]


def test_a_trace_is_shown_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps(trace(12)).encode()))
    assert profile.main(["--read", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 steps of 975 us; the device is busy for 260 us of each."
    assert "| propose | 200 | 150 | 70 |" in lines
    assert "| draft | 250.0 | 2.0 |" in lines


def test_spans_by_events_are_shown_beside_the_kernels_that_they_bracket() -> None:
    shown = profile.text(profile.profile(trace(12)), {"propose_gpu": [333e-6], "drafter_gpu": [231e-6, 231e-6]})
    assert "| propose_gpu | 333.0 | 330.0 |" in shown
    assert "| drafter_gpu | 231.0 | 230.0 |" in shown
