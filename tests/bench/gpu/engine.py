"""One engine in this process, visited through standard input: `python -m bench.gpu.engine SETUP`.

SETUP is a JSON object (`Setup`).  Each line of input is a visit, each line of output what came of it; the first line of
output says that the engine is ready.  Spans are taken from outside, by the same wrappers round the same methods in
every tree, so that stock's are measured as ours are.  Nothing of specdecode_engine is imported here.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from bench.gpu import arms
from bench.gpu.arms import Visit
from bench.gpu.models import TARGET

AHEAD = 3
"""Calls after a request's end that clear what an engine has scheduled ahead; they do nothing where there is nothing."""

LED_IN = 3
"""Steps that begin a request and are not among its spans: the prefill's, and the graphs' first."""

ENVIRONMENT = {
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
"""Of the process that an engine runs in: whole in it, without the network."""


@dataclass(frozen=True)
class Setup:
    """What an engine needs to know before it starts."""

    models: str
    """Folder that `models.write` filled."""
    method: str
    seed: int


def command(setup: Setup) -> list[str]:
    """What starts one, with this Python."""
    return [sys.executable, "-m", "bench.gpu.engine", json.dumps(asdict(setup))]


@dataclass
class Asked:
    """One request as its client sees it."""

    cached: int
    """Prompt tokens found in the prefix cache."""
    first: float
    """Seconds to the first token."""
    steps: list[float]
    """Seconds of each step after that."""
    emitted: list[int]
    """Tokens of each of them."""
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each span, one a step; of timed requests only."""


Run = Callable[..., Any]
Wrapped = tuple[Any, str, Run]
"""An object, the name of a method of it, and what stands in the method's place."""


class Spans:
    """Host and device times within a step."""

    def __init__(self, runner: Any) -> None:
        speculator = runner.speculator
        self._host: dict[str, list[float]] = {}
        self._device: dict[str, list[tuple[Any, Any]]] = {}
        self._wrapped = [
            (speculator, "propose", self._timed("propose_host", self._on_stream("propose_gpu", speculator.propose))),
            *each(speculator, "_generate_draft", lambda run: self._on_stream("drafter_gpu", run)),
            *(
                wrapped
                for graphs in vars(speculator).values()
                for wrapped in each(graphs, "run_fullgraph", lambda run: self._on_stream("drafter_gpu", run))
            ),
            *each(runner, "prepare_inputs", lambda run: self._timed("prepare_inputs_host", run)),
            *each(runner.model_state, "prepare_attn", lambda run: self._timed("prepare_attn_host", run)),
        ]

    @contextmanager
    def taken(self, into: dict[str, list[float]]) -> Iterator[None]:
        """Take them within the block, into `into` at its end.  Outside nothing of this runs."""
        import torch

        self._host, self._device = {}, {}
        with in_place(self._wrapped):
            yield
        torch.cuda.synchronize()
        measured = self._host | {
            name: [start.elapsed_time(end) * 1e-3 for start, end in pairs] for name, pairs in self._device.items()
        }
        into.update({name: rounded(values[LED_IN:]) for name, values in measured.items()})

    def _timed(self, name: str, run: Run) -> Run:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = run(*args, **kwargs)
            self._host.setdefault(name, []).append(time.perf_counter() - start)
            return result

        return timed

    def _on_stream(self, name: str, run: Run) -> Run:
        import torch

        def bracketed(*args: Any, **kwargs: Any) -> Any:
            pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            pair[0].record()
            result = run(*args, **kwargs)
            pair[1].record()
            self._device.setdefault(name, []).append(pair)
            return result

        return bracketed


def each(of: Any, name: str, wrap: Callable[[Run], Run]) -> Iterator[Wrapped]:
    """The wrapper of `of`'s method, if it has one."""
    if (method := getattr(of, name, None)) is not None:
        yield of, name, wrap(method)


@contextmanager
def in_place(wrapped: Iterable[Wrapped]) -> Iterator[None]:
    """The wrappers instead of the methods within the block."""
    with ExitStack() as undone:
        for of, name, wrapper in wrapped:
            if name in vars(of):
                undone.callback(setattr, of, name, vars(of)[name])
            else:
                undone.callback(delattr, of, name)
            setattr(of, name, wrapper)
        yield


def start(setup: Setup) -> Any:
    """vLLM in this process, with a drafter that is forced to be right ACCEPTANCE - 1 times a step."""
    from vllm import LLM

    return LLM(
        model=f"{setup.models}/{TARGET}",
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=40_960,
        max_num_seqs=4,
        max_num_batched_tokens=8192,
        enable_prefix_caching=True,
        # What telemetry brings goes as far as the scheduler's stats in every arm.
        disable_log_stats=False,
        # Several engines share the device: each takes what it is told, whatever the others hold.
        kv_cache_memory_bytes=4 << 30,
        gpu_memory_utilization=0.05,
        attention_config={"backend": "TRITON_ATTN"},
        speculative_config={
            "method": setup.method,
            "model": f"{setup.models}/{setup.method}",
            "num_speculative_tokens": arms.DRAFTED[setup.method],
            "attention_backend": "TRITON_ATTN",
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": arms.ACCEPTANCE,
        },
        compilation_config={"mode": 0, "cudagraph_mode": "FULL", "cudagraph_capture_sizes": [1, 2, 4]},
    ).llm_engine


def runner_of(engine: Any) -> Any:
    """The model runner of an engine that runs whole in this process."""
    return engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner


def greedy(tokens: int) -> Any:
    """Sampling parameters of a request for so many tokens."""
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)


class Client:
    """Asks an engine one request after the other."""

    def __init__(self, engine: Any, spans: Spans, seed: int) -> None:
        self._engine = engine
        self._spans = spans
        self._seed = seed
        self._prefix = arms.prefix(seed)
        self._asked = 0

    def visit(self, visit: Visit) -> list[Asked]:
        """Settle, then the bare requests, then the timed ones."""
        tails = (arms.tail(self._seed, visit, request) for request in itertools.count())
        self.ask(next(tails), arms.SETTLING)
        bare = [self.ask(next(tails), arms.TOKENS) for _ in range(arms.BARE)]
        return bare + [self._timed(next(tails)) for _ in range(arms.TIMED)]

    def _timed(self, tail: Sequence[int]) -> Asked:
        spans: dict[str, list[float]] = {}
        with self._spans.taken(spans):
            asked = self.ask(tail, arms.TOKENS)
        asked.spans = spans
        return asked

    def ask(self, tail: Sequence[int], tokens: int) -> Asked:
        """One request, step by step."""
        prompt = {"prompt_token_ids": [*self._prefix, *tail]}
        params = greedy(tokens)
        self._asked += 1
        stamps, counts, cached = [time.perf_counter()], [0], 0
        self._engine.add_request(str(self._asked), prompt, params)
        while self._engine.has_unfinished_requests():
            for output in self._engine.step():
                stamps.append(time.perf_counter())
                counts.append(len(output.outputs[0].token_ids))
                cached = output.num_cached_tokens or 0
        for _ in range(AHEAD):
            self._engine.step()
        took = [after - before for before, after in itertools.pairwise(stamps)]
        emitted = [after - before for before, after in itertools.pairwise(counts)]
        return Asked(cached, took[0], rounded(took[1:]), emitted[1:])


def rounded(seconds: Sequence[float]) -> list[float]:
    """To a tenth of a microsecond: no clock here is finer."""
    return [round(value, 7) for value in seconds]


def facts() -> dict[str, str]:
    """What this engine runs on."""
    import torch
    import triton
    import vllm

    return {
        "device": torch.cuda.get_device_name(),
        "vllm": vllm.__version__,
        "from": os.path.dirname(os.path.dirname(vllm.__file__)),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": sys.version.split()[0],
    }


def main() -> None:
    """Start, warm up, answer visits until the input ends."""
    answers = _answers()
    begun = time.monotonic()
    setup = Setup(**json.loads(sys.argv[1]))
    engine = start(setup)
    client = Client(engine, Spans(runner_of(engine)), setup.seed)
    missed = client.ask(arms.tokens("warm up", arms.TAIL), arms.TOKENS)
    client.visit(Visit(round=-1, sweep=0, leg=0, arm=""))
    ready = {"seconds": round(time.monotonic() - begun, 1), "miss_seconds": missed.first, "facts": facts()}
    print(json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        asked = client.visit(Visit(**json.loads(line)))
        print(json.dumps([asdict(each) for each in asked]), file=answers, flush=True)


def _answers() -> TextIO:
    """Standard output, for answers alone: whatever else the engine prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
