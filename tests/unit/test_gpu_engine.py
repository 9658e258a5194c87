"""What is asked of an engine and timed within its steps, with a small stand-in for vLLM and for the device."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from bench.gpu import arms, engine
from bench.gpu.arms import Visit
from bench.gpu.engine import LED_IN, Client, Spans


class FakeEvent:
    """The n-th event of the device is recorded at n milliseconds."""

    clock = itertools.count()

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at: int | None = None

    def record(self) -> None:
        self.at = next(self.clock)

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.at is not None
        assert end.at is not None
        return float(end.at - self.at)


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(Event=FakeEvent, synchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=device))
    monkeypatch.setattr(engine, "greedy", lambda tokens: tokens)


class Graphs:
    def run_fullgraph(self, descriptor: str) -> str:
        return descriptor


class Speculator:
    def __init__(self) -> None:
        self.query_cudagraph_manager = Graphs()
        self.block_tables = object()
        self.eager = False

    def propose(self, batch: str) -> str:
        return self._generate_draft(batch) if self.eager else self.query_cudagraph_manager.run_fullgraph(batch)

    def _generate_draft(self, batch: str) -> str:
        return batch


class Runner:
    """A model runner with the methods that are wrapped."""

    def __init__(self) -> None:
        self.speculator = Speculator()
        self.model_state = SimpleNamespace(prepare_attn=lambda: "metadata")

    def prepare_inputs(self) -> str:
        return "inputs"

    def step(self) -> str:
        self.prepare_inputs()
        self.model_state.prepare_attn()
        return self.speculator.propose("drafts")


class Engine:
    """Emits one token first, then three a step; one batch is scheduled ahead, as asynchronous scheduling does."""

    def __init__(self) -> None:
        self.runner = Runner()
        self.prompts: list[list[int]] = []
        self.wanted = self.given = self.ahead = 0

    def add_request(self, request_id: str, prompt: dict[str, list[int]], params: int) -> None:
        assert self.ahead == 0, "a request began while a batch of the one before was in flight"
        self.prompts.append(prompt["prompt_token_ids"])
        self.wanted, self.given, self.ahead = params, 0, 1

    def has_unfinished_requests(self) -> bool:
        return self.given < self.wanted

    def step(self) -> list[Any]:
        if not self.has_unfinished_requests():
            self.ahead = max(0, self.ahead - 1)
            return []
        self.runner.step()
        self.given = min(self.wanted, self.given + (3 if self.given else 1))
        return [SimpleNamespace(num_cached_tokens=7, outputs=[SimpleNamespace(token_ids=[0] * self.given)])]


def client(of: Engine) -> Client:
    return Client(of, Spans(of.runner), seed=1)


def test_steps_are_counted_from_the_first_token() -> None:
    asked = client(Engine()).ask([1, 2], 12)
    assert asked.emitted == [3, 3, 3, 2]
    assert len(asked.steps) == 4
    assert asked.cached == 7
    assert asked.first > 0


def test_no_request_begins_while_one_before_is_in_flight() -> None:
    of = Engine()
    asking = client(of)
    asking.ask([1], 4)
    asking.ask([2], 4)
    assert len(of.prompts) == 2


def test_a_visit_asks_bare_requests_and_then_timed_ones_with_prompts_of_one_prefix() -> None:
    of = Engine()
    found = client(of).visit(Visit(0, 0, 0, "stock"))
    assert [bool(asked.spans) for asked in found] == [False] * arms.BARE + [True] * arms.TIMED
    assert {tuple(prompt[: arms.PREFIX]) for prompt in of.prompts} == {tuple(arms.prefix(1))}
    assert len({tuple(prompt) for prompt in of.prompts}) == len(of.prompts) == 1 + arms.BARE + arms.TIMED


def timed(runner: Runner, steps: int) -> dict[str, list[float]]:
    spans: dict[str, list[float]] = {}
    with Spans(runner).taken(spans):
        for _ in range(steps):
            assert runner.step() == "drafts"
    return spans


@pytest.mark.parametrize("eager", [False, True])
def test_every_span_has_a_sample_a_step_but_for_those_that_lead_in(eager: bool) -> None:
    runner = Runner()
    runner.speculator.eager = eager
    spans = timed(runner, LED_IN + 4)
    names = {"propose_host", "propose_gpu", "drafter_gpu", "prepare_inputs_host", "prepare_attn_host"}
    assert {name: len(values) for name, values in spans.items()} == dict.fromkeys(names, 4)


def test_the_drafters_span_lies_within_proposes() -> None:
    spans = timed(Runner(), LED_IN + 2)
    assert spans["drafter_gpu"] == [1e-3] * 2
    assert spans["propose_gpu"] == [3e-3] * 2


def test_nothing_is_wrapped_outside_a_timed_request() -> None:
    runner = Runner()
    spans = Spans(runner)
    before = [dict(vars(of)) for of in (runner, runner.speculator, runner.speculator.query_cudagraph_manager)]
    with spans.taken({}):
        assert "run_fullgraph" in vars(runner.speculator.query_cudagraph_manager)
    assert [dict(vars(of)) for of in (runner, runner.speculator, runner.speculator.query_cudagraph_manager)] == before


def test_what_was_in_a_methods_place_before_is_there_again() -> None:
    runner = Runner()
    first, second = (lambda: "first"), (lambda: "second")
    with engine.in_place([(runner, "prepare_inputs", first)]):
        with engine.in_place([(runner, "prepare_inputs", second)]):
            assert runner.prepare_inputs() == "second"
        assert runner.prepare_inputs() == "first"
    assert runner.prepare_inputs() == "inputs"
