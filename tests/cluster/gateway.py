"""Requests as a client sends them: to the gateway's address on this machine, by hostname."""

from __future__ import annotations

import httpx
from apiserver import Object
from objects import COMPLETIONS_URL, MODEL


def complete(hostname: str, *, model: str = MODEL, tokens: int = 4, seconds: float = 20) -> Object:
    """One completion; an AssertionError for any answer but 200, since a new route takes a moment to be in force."""
    body = {"model": model, "prompt": "Once", "max_tokens": tokens, "ignore_eos": True}
    try:
        answer = httpx.post(COMPLETIONS_URL, json=body, headers={"host": hostname}, timeout=seconds, trust_env=False)
    except httpx.TransportError as error:
        raise AssertionError(f"the gateway did not answer: {type(error).__name__} {error}") from error
    assert answer.status_code == 200, f"the gateway answered {answer.status_code}: {answer.text[:300]}"
    return dict(answer.json())
