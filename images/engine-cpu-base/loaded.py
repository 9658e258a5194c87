"""Imports what the engine starts with, the first thing that a broken recipe breaks, and lists what has no byte code.

The file named by the argument gets the paths of loaded Python files that were not compiled with the rest.

    TRITON_INTERPRET=1 /opt/vllm/bin/python3 loaded.py FILE
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

STARTED_WITH = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
)


def check() -> None:
    """Raises what is broken."""
    for name in STARTED_WITH:
        importlib.import_module(name)
    torch = importlib.import_module("torch")
    platform = importlib.import_module("vllm.platforms").current_platform
    triton = importlib.import_module("vllm.triton_utils").HAS_TRITON
    if not platform.is_cpu() or not triton or torch.cuda.is_available():
        raise SystemExit(f"wants a CPU and Triton, found platform {platform}, Triton {triton}")


def without_byte_code() -> list[str]:
    """Files of this environment, so neither this one nor Python's own library.

    Modules that are no files, such as torch.ops, may name one all the same.
    """
    named = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    ours = [file for file in named if file.endswith(".py") and Path(file).is_relative_to(sys.prefix)]
    return sorted(
        file for file in ours if Path(file).is_file() and not Path(importlib.util.cache_from_source(file)).exists()
    )


if __name__ == "__main__":
    check()
    Path(sys.argv[1]).write_text("".join(f"{file}\n" for file in without_byte_code()))
