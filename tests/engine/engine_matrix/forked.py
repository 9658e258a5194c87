"""The quick form: a few engines of one image, one after the other, without a server.  Run by that image's own python3.

    python3 -c "$(cat forked.py)" '{"settings": {...}, "variants": [...], "prompts": [...], "together": [...], ...}'

Each engine is a process, forked once what no patch touches is imported: a third of a start.
Every result is a line of its own on standard output, beginning with SAID.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

SAID = "specdecode said: "
UNTOUCHED = ("torch", "triton", "transformers", "fastapi", "openai", "prometheus_client")
"""Imported by every engine, and none of them imports vLLM."""


def main() -> None:
    """Run every variant; the first that fails ends it."""
    asked = json.loads(sys.argv[1])
    for name in UNTOUCHED:
        importlib.import_module(name)
    for variant in asked["variants"]:
        set_patches(set(variant["patches"]))
        child = os.fork()
        if not child:
            print(f"\n{SAID}{json.dumps({'variant': variant['name'], **answers(asked, variant)})}", flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{variant['name']}: exit code {os.waitstatus_to_exitcode(status)}")


def set_patches(wanted: set[str]) -> None:
    """Make the installed tree the release's with just these."""
    listed = subprocess.run(["specdecode-engine", "list", "--json"], check=True, capture_output=True, text=True)
    inside = {row["name"] for row in json.loads(listed.stdout)["rows"] if row["state"] == "active"}
    for command, names in (("revert", inside - wanted), ("apply", wanted - inside)):
        if names:
            subprocess.run(["specdecode-engine", command, *sorted(names)], check=True)


def answers(asked: Mapping[str, Any], variant: Mapping[str, Any]) -> dict[str, Any]:
    """What this variant's engine answers, and its metrics."""
    os.environ.update(variant["environment"])
    from prometheus_client import generate_latest
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    loggers = None
    if variant["patches"]:
        from specdecode_engine.telemetry.logger import SpecdecodeStatLogger

        loggers = [SpecdecodeStatLogger]
    engine = LLMEngine.from_engine_args(EngineArgs(**asked["settings"]), stat_loggers=loggers)
    found = [complete(engine, prompt, asked["tokens"], asked["seed"]) for prompt in asked["prompts"]]
    finish(engine, asked["together"], asked["tokens"], asked["seed"])
    finish(engine, [{"prompt": "last"}], 2, asked["seed"])  # its step brings what the steps before still had to ship
    tokens, cached = zip(*found, strict=True)
    return {"tokens": tokens, "cached": cached, "metrics": generate_latest().decode()}


def complete(engine: Any, prompt: Mapping[str, str], tokens: int, seed: int) -> tuple[list[int], int]:
    """(greedy tokens, cached tokens of the prompt) of one request with nothing beside it."""
    (output,) = finish(engine, [prompt], tokens, seed)
    return list(output.outputs[0].token_ids), output.num_cached_tokens or 0


def finish(engine: Any, prompts: Sequence[Mapping[str, str]], tokens: int, seed: int) -> list[Any]:
    """What came of greedy requests that were made at once, in the order in which they ended."""
    from vllm import SamplingParams

    for at, prompt in enumerate(prompts):
        settings = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, seed=seed)
        engine.add_request(str(at), prompt, settings)
    done: list[Any] = []
    while engine.has_unfinished_requests():
        done += [output for output in engine.step() if output.finished]
    return done


if __name__ == "__main__":
    main()
