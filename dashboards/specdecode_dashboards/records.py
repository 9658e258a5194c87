"""What is recorded: the engines' 1,500 series each, added up to what a person looks at.

Rates are over five minutes, so that three scrapes of a minute each are enough. Spans are recorded as sums and counts:
a mean over several batches is the quotient of their sums, never a mean of means.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from specdecode_operator.api import names

OBJECT: Final = "namespace, specdecode_name"
REVISION: Final = f"{OBJECT}, specdecode_revision"

SPAN_SECONDS: Final = "revision_batch:specdecode_span_seconds_sum:rate5m"
SPAN_STEPS: Final = "revision_batch:specdecode_span_seconds_count:rate5m"
PROBE: Final = "revision:specdecode_probe_seconds:mean5m"
ACCEPTANCE: Final = "revision:specdecode_acceptance_length:mean5m"
DRAFTS: Final = "revision:specdecode_drafts:rate5m"
ACCEPTED: Final = "revision_position:specdecode_accepted_tokens:rate5m"
FINISHED: Final = "revision:specdecode_requests_finished:rate5m"
EMITTED: Final = "revision:vllm_generation_tokens:rate5m"
ARM: Final = "revision_arm:specdecode_slots:group"
"""1 for each revision and the arm that it is now: by this a revision's series get their arm."""


@dataclass(frozen=True)
class Record:
    """A recording rule."""

    name: str
    expr: str
    labels: dict[str, str] = field(default_factory=dict)

    def rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        return {"record": self.name, "expr": self.expr, **({"labels": self.labels} if self.labels else {})}


def records() -> list[Record]:
    """All of them."""
    return [
        *(record for span in spans() for record in _span(span)),
        *(Record(PROBE, _mean(f"specdecode_probe_{where}_seconds"), {"probe": where}) for where in ("host", "device")),
        Record(ACCEPTANCE, _mean(names.METRIC_ACCEPTANCE)),
        Record(DRAFTS, _rate("specdecode_drafts_total")),
        Record(ACCEPTED, _rate("specdecode_accepted_tokens_total", by=f"{REVISION}, position")),
        Record(FINISHED, _rate(names.METRIC_FINISHED)),
        Record(EMITTED, _rate("vllm:generation_tokens_total")),
        Record(ARM, f"group by ({REVISION}, arm) (specdecode_slots)"),
    ]


def spans() -> list[str]:
    """The spans of a decode step, without the prefix and unit of their metrics."""
    found = (metric.removeprefix("specdecode_").removesuffix("_seconds") for metric in names.METRIC_SPANS)
    return [span for span in found if not span.startswith("probe_")]


def mean_span(span: str, matchers: str, by: str = REVISION) -> str:
    """PromQL: mean seconds of a span, over all that is chosen."""
    chosen = f'{{span="{span}",{matchers}}}'
    return f"sum by ({by}) ({SPAN_SECONDS}{chosen}) / sum by ({by}) ({SPAN_STEPS}{chosen})"


def _span(span: str) -> list[Record]:
    """Of decode steps: in a mixed one, prefill takes most of the time."""
    return [
        Record(
            name, _rate(f"specdecode_{span}_seconds_{part}", 'step="decode"', by=f"{REVISION}, batch"), {"span": span}
        )
        for name, part in ((SPAN_SECONDS, "sum"), (SPAN_STEPS, "count"))
    ]


def _rate(metric: str, matchers: str = "", *, by: str = REVISION) -> str:
    braces = f"{{{matchers}}}" if matchers else ""
    return f"sum by ({by}) (rate({metric}{braces}[5m]))"


def _mean(histogram: str) -> str:
    return f"{_rate(f'{histogram}_sum')}\n/\n{_rate(f'{histogram}_count')}"
