"""The check that every process of the engine runs before it does anything else (vLLM's general plugin).

A mismatch stops the start: an engine whose files are not what they should be must not serve.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from specdecode_engine import attestation, manifests
from specdecode_engine.attestation import Attestation
from specdecode_engine.errors import Refused

NOT_ATTESTED = 78
"""Exit code of an engine that does not start for what its check found."""

MIDDLEWARE = "specdecode_engine.asgi.Attested"


def installed_root() -> Path:
    """The folder that holds the vLLM of this process, found without importing it."""
    import importlib.util

    spec = importlib.util.find_spec("vllm")
    assert spec is not None, "a plugin of vLLM runs inside vLLM"
    assert spec.origin is not None, "vLLM is an ordinary package"
    return Path(spec.origin).resolve().parent.parent


def check() -> None:
    """Exit with a plain message if this engine may not start.

    SystemExit, because vLLM logs an ordinary exception of a plugin and goes on.
    """
    try:
        insist(attestation.attest(installed_root(), manifests.of_installed_release()))
    except Refused as refused:
        stop(refused)


def insist(result: Attestation) -> None:
    """Raise Refused if the check did not pass."""
    if not result.ok:
        raise Refused(list(result.findings))


def stop(refused: Refused) -> NoReturn:
    """Say why the engine does not start, one line a finding, and leave."""
    lines = "\n".join(f"  {finding}" for finding in refused.findings)
    print(f"specdecode: this engine does not start:\n{lines}", file=sys.stderr, flush=True)
    raise SystemExit(NOT_ATTESTED) from None


def serve(arguments: Sequence[str]) -> NoReturn:
    """Become `vllm serve` with the attestation on its port, once the check has passed.

    vLLM's plugins check again in every process; here it is said before anything of vLLM is imported.
    """
    check()
    os.execvp("vllm", ["vllm", "serve", *arguments, "--middleware", MIDDLEWARE])
