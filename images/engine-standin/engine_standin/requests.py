"""Pure: OpenAI requests in, response bodies and stream chunks out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["completion", "chat"]

DEFAULT_MAX_TOKENS = 16
"""What the API gives a completion without `max_tokens`."""

FILLER = ("the", " draft", " is", " checked", " and", " the", " target", " keeps", " what", " it", " accepts", ".")


class RequestError(Exception):
    """A request that is refused, with its HTTP status and the field at fault."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {
                "message": message,
                "type": "NotFoundError" if status == 404 else "BadRequestError",
                "param": param,
                "code": status,
            }
        }


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A checked request."""

    kind: Kind
    model: str
    max_tokens: int
    prompt_tokens: int
    stream: bool
    include_usage: bool


def parse(body: object, *, kind: Kind, served_names: Sequence[str], max_model_len: int) -> Generation:
    """Checks a request's JSON. Raises RequestError as the engine answers."""
    if not isinstance(body, dict):
        raise RequestError(f"the body must be a JSON object, found {type(body).__name__}")
    model = body.get("model") or served_names[0]
    if model not in served_names:
        raise RequestError(f"The model `{model}` does not exist.", status=404, param="model")
    if body.get("n", 1) not in (None, 1):
        raise RequestError(f"n is {body['n']!r}; the stand-in gives one choice", param="n")
    prompt_tokens = _prompt_tokens(body, kind)
    limit = max_model_len - prompt_tokens
    if limit < 1:
        raise RequestError(
            f"the prompt has {prompt_tokens} tokens; the model's length is {max_model_len}", param="prompt"
        )
    default = limit if kind == "chat" else min(DEFAULT_MAX_TOKENS, limit)
    asked = body.get("max_completion_tokens", body.get("max_tokens"))
    max_tokens = default if asked is None else asked
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or not 1 <= max_tokens <= limit:
        raise RequestError(f"max_tokens is {asked!r}; allowed: 1 to {limit} after this prompt", param="max_tokens")
    return Generation(
        kind=kind,
        model=model,
        max_tokens=max_tokens,
        prompt_tokens=prompt_tokens,
        stream=bool(body.get("stream")),
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
    )


def _prompt_tokens(body: dict[str, Any], kind: Kind) -> int:
    """Words, or token ids when the prompt is given as such."""
    if kind == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RequestError("messages must be a list with at least one message", param="messages")
        return sum(len(json.dumps(message.get("content", "")).split()) for message in messages)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return len(prompt)
    if isinstance(prompt, str) and prompt:
        return len(prompt.split()) or 1
    raise RequestError("prompt must be a text or a list of token ids; the stand-in takes one", param="prompt")


def text(first: int, count: int) -> str:
    """The filler for tokens `first` to `first + count - 1` of a response."""
    return "".join(FILLER[index % len(FILLER)] for index in range(first, first + count))


def usage(generation: Generation, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": generation.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": generation.prompt_tokens + completion_tokens,
    }


def answer(generation: Generation, *, identity: str, created: int, tokens: int, reason: str) -> dict[str, Any]:
    """The whole body of a request without `stream`."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
    if generation.kind == "chat":
        choice["message"] = {"role": "assistant", "content": text(0, tokens)}
    else:
        choice["text"] = text(0, tokens)
    object_name = "chat.completion" if generation.kind == "chat" else "text_completion"
    return {
        **_envelope(generation, object_name, identity, created),
        "choices": [choice],
        "usage": usage(generation, tokens),
    }


def chunk(generation: Generation, *, identity: str, created: int, content: str | None, reason: str | None) -> bytes:
    """One event of a stream. `content` None in a chat is the opening event with the role alone."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": None}
    if generation.kind == "chat":
        choice["delta"] = {"role": "assistant", "content": ""} if content is None else {"content": content}
    else:
        choice["text"] = content or ""
    object_name = "chat.completion.chunk" if generation.kind == "chat" else "text_completion"
    return event({**_envelope(generation, object_name, identity, created), "choices": [choice]})


def usage_chunk(generation: Generation, *, identity: str, created: int, tokens: int) -> bytes:
    """The event that `stream_options.include_usage` asks for."""
    object_name = "chat.completion.chunk" if generation.kind == "chat" else "text_completion"
    envelope = _envelope(generation, object_name, identity, created)
    return event({**envelope, "choices": [], "usage": usage(generation, tokens)})


def event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"

SERVER_ERROR: dict[str, Any] = {
    "error": {
        "message": "The engine's core ended before the request did.",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}
"""What a request gets whose engine went away under it."""


def _envelope(generation: Generation, object_name: str, identity: str, created: int) -> dict[str, Any]:
    return {"id": identity, "object": object_name, "created": created, "model": generation.model}
