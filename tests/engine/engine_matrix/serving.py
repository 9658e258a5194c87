"""One engine of a variant: started, waited for, ended."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine_matrix import variants
from engine_matrix.image import Image
from engine_matrix.variants import Variant

PATIENCE = 900.0
"""Seconds for a start: half a minute alone, far more beside others."""

RANKS = {"VLLM_CPU_SIM_MULTI_NUMA": "1", "VLLM_CPU_OMP_THREADS_BIND": "auto", "TORCHDYNAMO_DISABLE": "1"}
"""Of an engine of several ranks: they may share a machine's only memory node, and what the embedding of a tensor rank
would compile needs a compiler, which the image has not."""

ACCEPTANCE_LENGTH = 2.6
DRAFTED = 3
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def settings(target: str, drafter: str) -> dict[str, Any]:
    """Of the engine, as its `EngineArgs` call them: as the demo's, small buffers and forced acceptance."""
    return {
        "model": f"/models/{target}",
        "served_model_name": "m",
        "dtype": "bfloat16",
        "enforce_eager": True,
        "max_model_len": 1024,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "kv_cache_memory_bytes": 64 * 1024**2,
        "enable_prefix_caching": True,
        "seed": 0,
        "speculative_config": {
            "method": drafter,
            "model": f"/models/{drafter}",
            "num_speculative_tokens": DRAFTED,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": ACCEPTANCE_LENGTH,
        },
    }


def arguments(target: str, drafter: str, port: int, more: Mapping[str, Any]) -> list[str]:
    """Of `vllm serve`, with `more` settings of the engine."""
    server = {"host": "127.0.0.1", "port": port, "enable_prompt_tokens_details": True}
    model, *words = _words({**settings(target, drafter), **more, **server})
    return [model.partition("=")[2], *words]


def _words(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        yield option if value is True else f"{option}={value if isinstance(value, str) else json.dumps(value)}"


@contextlib.contextmanager
def engine(
    image: Image, variant: Variant, target: str, drafter: str, log: Path, more: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[str]:
    """The address of a running engine, of several ranks if `more` settings say so.

    Raises RuntimeError, with the end of its log, if it does not start.
    """
    image.set_patches(variant.patches)
    port = _free_port()
    words = ["specdecode-engine", "serve"] if variant.whole else ["vllm", "serve"]
    command = image.command(
        [*words, *arguments(target, drafter, port, more)], {**variants.environment(variant), **(RANKS if more else {})}
    )
    with running(command, log) as process:
        url = f"http://127.0.0.1:{port}"
        _wait(process, f"{url}/health", log)
        yield url


@contextlib.contextmanager
def running(command: Sequence[str], log: Path, stdout: int | None = None) -> Iterator[subprocess.Popen]:
    """A process that ends with all of its own; what it says is in the log, unless `stdout` wants its output."""
    with log.open("w") as err:
        process = subprocess.Popen(
            command, stdout=err if stdout is None else stdout, stderr=err, start_new_session=True, text=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def get(url: str) -> str:
    """The body of a GET, by no proxy."""
    with _NO_PROXY.open(url, timeout=60) as answer:
        return str(answer.read().decode())


def post(url: str, body: object) -> dict:
    """The JSON that a POST of JSON answers, by no proxy."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with _NO_PROXY.open(request, timeout=PATIENCE) as answer:
        return dict(json.load(answer))


def _wait(process: subprocess.Popen, health: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            get(health)
            return
        time.sleep(0.5)
    state = f"exit code {process.returncode}" if process.returncode is not None else f"nothing after {PATIENCE:g} s"
    raise RuntimeError(f"the engine does not serve: {state}\n" + "\n".join(log.read_text().splitlines()[-20:]))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
