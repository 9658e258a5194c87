"""The engine's metrics that the operator, the gateway's users and the demo read, under vLLM's names and labels."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from engine_standin.steps import Step

FINISH_REASONS = ("stop", "length", "abort")


class Meters:
    """One registry with the series of one served model; all series exist from the start, at 0."""

    def __init__(self, model_name: str, drafted: int) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        labels = {"model_name": model_name, "engine": "0"}
        names = tuple(labels)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"vllm:{name}", text, names, registry=self.registry).labels(**labels)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"vllm:{name}", text, names, registry=self.registry).labels(**labels)

        self.running = gauge("num_requests_running", "Requests being served.")
        self.waiting = gauge("num_requests_waiting", "Requests that wait; none ever does here.")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens processed.")
        self.generation_tokens = counter("generation_tokens", "Tokens generated.")
        finished = Counter(
            "vllm:request_success",
            "Requests that ended, by reason.",
            (*names, "finished_reason"),
            registry=self.registry,
        )
        self.finished = {reason: finished.labels(**labels, finished_reason=reason) for reason in FINISH_REASONS}
        self.drafts: Counter | None = None
        if drafted:
            self.drafts = counter("spec_decode_num_drafts", "Steps with a draft.")
            self.draft_tokens = counter("spec_decode_num_draft_tokens", "Tokens drafted.")
            self.accepted_tokens = counter("spec_decode_num_accepted_tokens", "Drafted tokens accepted.")
            per_position = Counter(
                "vllm:spec_decode_num_accepted_tokens_per_pos",
                "Drafted tokens accepted, by position in the draft.",
                (*names, "position"),
                registry=self.registry,
            )
            self.accepted_at = [per_position.labels(**labels, position=str(place)) for place in range(drafted)]

    def observe(self, step: Step) -> None:
        """Counts one step of one request."""
        self.generation_tokens.inc(step.tokens)
        if self.drafts is not None:
            self.drafts.inc()
            self.draft_tokens.inc(step.drafted)
            self.accepted_tokens.inc(step.accepted)
            for position in self.accepted_at[: step.accepted]:
                position.inc()

    def exposition(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self.registry)
