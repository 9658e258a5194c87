"""That `skip-target-rebuild` leaves a graph what the release's build would: in each step, on this GPU.

    PYTHONPATH=<patched site folder>:tests python3 -m bench.gpu.replay --method dspark

One engine of this process answers batches of every size.  Each step that is refreshed is also built, after a wipe, and
the buffers of both are compared; then the same requests are asked with the optimization on and off, without any of
this, and the tokens are.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu import arms, engine, models
from bench.gpu.engine import Setup, Wrapped

AT_ONCE = (1, 2, 3, 4)
"""Requests of each batch: three are padded to a graph of four."""

TOKENS = 192
WIPED = -7
"""In no buffer: states and counts are positive."""


@dataclass
class Steps:
    """What the steps of the engine did."""

    refreshed: int = 0
    built: int = 0
    differing: int = 0
    """Refreshed steps after which some buffer is another than after the release's build."""


def compared(state: Any, steps: Steps) -> Wrapped:
    """In place of the model state's `prepare_attn`: refreshed steps are built too, and compared."""
    prepare = state.prepare_attn

    def both(*args: Any, **kwargs: Any) -> Any:
        _wipe(state)
        metadata = prepare(*args, **kwargs)
        if metadata:
            steps.built += 1
            return metadata
        refreshed = [buffer.clone() for buffer in _buffers(state)]
        _wipe(state)
        with engine.in_place([(state.target_replay, "applies", False)]):
            prepare(*args, **kwargs)
        pairs = zip(refreshed, _buffers(state), strict=True)
        steps.refreshed += 1
        steps.differing += not all(bool((one == other).all()) for one, other in pairs)
        return metadata

    return state, "prepare_attn", both


def _buffers(state: Any) -> list[Any]:
    """Of every Mamba builder that is known; none before the first refresh."""
    builders = state.target_replay.states.builders if state.target_replay.states else ()
    own = [(builder.state_indices_tensor_d, builder.decode_num_accepted_tokens) for builder in builders]
    return [buffer for pair in own for buffer in pair]


def _wipe(state: Any) -> None:
    for buffer in _buffers(state):
        buffer.fill_(WIPED)


def answers(llm: Any, name: str) -> Iterator[list[int]]:
    """Tokens of every request, batch after batch."""
    from vllm import SamplingParams

    prefix = arms.prefix(1)
    for count in AT_ONCE:
        found: dict[str, Sequence[int]] = {}
        for at in range(count):
            prompt = {"prompt_token_ids": [*prefix, *arms.tokens(f"replay/{count}/{at}", arms.TAIL)]}
            # Forced acceptance draws from the seed, by position.
            params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False, seed=7)
            llm.add_request(f"{name}/{count}/{at}", prompt, params)
        while llm.has_unfinished_requests():
            found.update({output.request_id: output.outputs[0].token_ids for output in llm.step()})
        yield from (list(found[id]) for id in sorted(found))


def main(argv: Sequence[str] | None = None) -> int:
    """Ask, compare, and say so.  Returns 1 if anything differs, or nothing was refreshed."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.replay", description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=sorted(arms.DRAFTED), required=True)
    method = parser.parse_args(argv).method
    os.environ |= engine.ENVIRONMENT
    with tempfile.TemporaryDirectory() as folder:
        models.write(Path(folder), method)
        llm = engine.start(Setup(models=folder, method=method, seed=1))
        state, steps = engine.runner_of(llm).model_state, Steps()
        list(answers(llm, "into the cache"))
        with engine.in_place([compared(state, steps)]):
            list(answers(llm, "compared"))
        on = list(answers(llm, "on"))
        with engine.in_place([(state.target_replay, "applies", False)]):
            off, again = list(answers(llm, "off")), list(answers(llm, "off again"))
    print(f"{steps.refreshed} steps refreshed, {steps.built} built, {steps.differing} of the first with other buffers")
    print(f"{len(on)} answers, on and off alike: {on == off}; off twice alike: {off == again}")
    return int(steps.differing > 0 or steps.refreshed == 0 or (off == again and on != off))


if __name__ == "__main__":
    sys.exit(main())
