"""What every engine is asked, and what it said: tokens, cached tokens, and its counters."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from engine_matrix import serving

SHARED = "the quick brown fox jumps over the lazy dog; " * 14
"""A prefix of several KV blocks: a byte a token."""

ALONE = ("hello 1", f"{SHARED}a", f"{SHARED}b", f"{SHARED}b")
"""One after the other, for tokens: a batch that differs may round differently.  The third hits the second's cache; the
last is the same, salted, so that it hits none."""

HIT, UNCACHED = 2, 3
SEED = 7
"""Of each request: forced acceptance draws from it, by position."""

TOGETHER = ("one", "two two", "three three three", f"{SHARED}c")
"""At once, for counters over batches and mixed steps."""

OWN = "vllm:spec_decode_num_"


@dataclass
class Result:
    """What one engine said."""

    tokens: list[list[int]] = field(default_factory=list)
    cached: list[int] = field(default_factory=list)
    own: dict[str, float] = field(default_factory=dict)
    """vLLM's counters: drafts, draft_tokens, accepted at each position, finished requests."""
    ours: dict[str, float] = field(default_factory=dict)
    """The same of specdecode_; empty without our package."""
    spans: dict[str, list[float]] = field(default_factory=dict)
    """Span -> [samples, seconds]."""
    states: dict[str, str] = field(default_factory=dict)
    """What the engine itself says of each optimization."""


def run(url: str, *, tokens: int) -> Result:
    """Ask everything, then read the counters once they stand still."""
    result = Result()
    for at, prompt in enumerate(ALONE):
        answer = _complete(url, prompt, tokens, **({"cache_salt": "none"} if at == UNCACHED else {}))
        result.tokens.append(answer["choices"][0]["token_ids"])
        result.cached.append((answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
    with ThreadPoolExecutor(len(TOGETHER)) as pool:
        list(pool.map(lambda prompt: _complete(url, prompt, tokens), TOGETHER))
    _complete(url, "last", 2)  # its step brings what the steps before still had to ship
    counters(result, serving.get(f"{url}/metrics"))
    return result


def _complete(url: str, prompt: str, tokens: int, **more: object) -> dict:
    asked = {"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "seed": SEED}
    return serving.post(f"{url}/v1/completions", {**asked, "return_token_ids": True, **more})


def counters(result: Result, exposition: str) -> None:
    """Fill in what /metrics says."""
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            _count(result, sample.name, sample.labels, sample.value)


def _count(result: Result, name: str, labels: dict[str, str], value: float) -> None:
    position = f"accepted {labels.get('position')}"
    match name:
        case "vllm:spec_decode_num_drafts_total":
            result.own["drafts"] = value
        case "vllm:spec_decode_num_draft_tokens_total":
            result.own["draft tokens"] = value
        case "vllm:spec_decode_num_accepted_tokens_per_pos_total":
            result.own[position] = value
        case "vllm:request_success_total":
            result.own["finished"] = result.own.get("finished", 0) + value
        case "specdecode_drafts_total":
            result.ours["drafts"] = value
        case "specdecode_draft_tokens_total":
            result.ours["draft tokens"] = value
        case "specdecode_accepted_tokens_total":
            if int(labels["position"]) < serving.DRAFTED:
                result.ours[position] = value
        case "specdecode_requests_finished_total":
            result.ours["finished"] = value
        case "specdecode_optimization_info":
            result.states[labels["optimization"]] = labels["state"]
        case _ if name.startswith("specdecode_") and name.endswith(("_seconds_count", "_seconds_sum")):
            span, _, what = name.removeprefix("specdecode_").rpartition("_seconds_")
            result.spans.setdefault(span, [0.0, 0.0])[what == "sum"] += value
