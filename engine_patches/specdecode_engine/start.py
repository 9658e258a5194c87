"""The check that every process of the engine runs before it does anything else (vLLM's general plugin).

A mismatch stops the start: an engine whose files are not what they should be must not serve.
"""

import sys
from pathlib import Path

from specdecode_engine import attestation, manifests
from specdecode_engine.errors import Refused


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
        result = attestation.attest(installed_root(), manifests.of_installed_release())
        if not result.ok:
            raise Refused(list(result.findings))
    except Refused as refused:
        lines = "\n".join(f"  {finding}" for finding in refused.findings)
        print(f"specdecode: this engine does not start:\n{lines}", file=sys.stderr, flush=True)
        raise SystemExit(78) from None
