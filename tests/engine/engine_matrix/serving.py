"""One engine of a variant: started, waited for, ended."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from engine_matrix import variants
from engine_matrix.image import Image
from engine_matrix.variants import Variant

PATIENCE = 900.0
"""Seconds for a start: half a minute alone, far more beside others."""

ACCEPTANCE_LENGTH = 2.6
DRAFTED = 3
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def arguments(target: str, drafter: str, port: int) -> list[str]:
    """Of `vllm serve`: as the demo's, small buffers and forced acceptance."""
    speculative = {
        "method": drafter,
        "model": f"/models/{drafter}",
        "num_speculative_tokens": DRAFTED,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": ACCEPTANCE_LENGTH,
    }
    return [
        *(f"/models/{target}", "--served-model-name", "m", "--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4"),
        *("--max-num-batched-tokens", "64", "--kv-cache-memory-bytes", str(64 * 1024**2)),
        *("--enable-prefix-caching", "--enable-prompt-tokens-details", "--seed", "0"),
        *("--speculative-config", json.dumps(speculative)),
    ]


@contextlib.contextmanager
def engine(image: Image, variant: Variant, target: str, drafter: str, log: Path) -> Iterator[str]:
    """The address of a running engine.  Raises RuntimeError, with the end of its log, if it does not start."""
    image.set_patches(variant.patches)
    port = _free_port()
    words = ["specdecode-engine", "serve"] if variant.whole else ["vllm", "serve"]
    command = image.command([*words, *arguments(target, drafter, port)], variants.environment(variant))
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(process, f"{url}/health", log)
        yield url
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
