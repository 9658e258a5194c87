"""The engine's command line, as far as it changes anything here. The rest is reported, not refused."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What the stand-in takes from the `serve` arguments."""

    model: str
    served_names: tuple[str, ...]
    """Names that requests may use; the first is the label `model_name` of the metrics."""
    host: str
    port: int
    shutdown_timeout: int
    """Seconds that requests in flight get after SIGTERM; 0 ends them at once."""
    max_model_len: int
    speculative: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """Arguments that mean nothing here."""

    @property
    def draft_tokens(self) -> int:
        """K: tokens drafted in each step; 0 without speculative decoding."""
        return int(self.speculative.get("num_speculative_tokens") or 0)

    @property
    def method(self) -> str:
        """Of speculative decoding; `none` without."""
        return str(self.speculative.get("method") or "none")


def _speculative(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, found {text!r}")
    return value


def _seconds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or more whole seconds, found {text!r}")
    return int(text)


def parse(words: Sequence[str]) -> Arguments:
    """Reads the command line; exits with 2 like the engine when the model is missing or a value is wrong."""
    parser = argparse.ArgumentParser(prog="engine-standin", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", help="path or name, only reported back")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-model-name", nargs="+", default=None)
    parser.add_argument("--shutdown-timeout", type=_seconds, default=0)
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--speculative-config", type=_speculative, default={})
    known, ignored = parser.parse_known_args(words)
    return Arguments(
        model=known.model,
        served_names=tuple(known.served_model_name or [known.model]),
        host=known.host,
        port=known.port,
        shutdown_timeout=known.shutdown_timeout,
        max_model_len=known.max_model_len,
        speculative=known.speculative_config,
        ignored=tuple(ignored),
    )
