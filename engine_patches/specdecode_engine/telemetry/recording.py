"""Step samples of a running engine, as JSON lines: `specdecode-engine record`.

Taken from the engine's own /metrics, read often and differenced, so that nothing in the engine knows of it.  The first
line is the engine:

    {"format": 1, "release", "series", "manifest_digest", "device", "method", "sample_every", "every"}

every other line a window in which something was counted:

    {"at": seconds since the start,
     "spans": {"decode/1": {"propose_host": [count, seconds], ...}, "mixed/all": {...}, "-": {"probe_host": ...}},
     "drafts", "draft_tokens", "accepted": [at position 0, 1, ...], "finished", "dropped"}

A key of "spans" is step/batch, or - for a span without these.  Seconds are the sum of `count` samples.  A worker ships
at most every 100 ms: where steps take longer than that, a window holds one step and its samples are exact; where they
are faster, the mean of a few.  A device span comes with the next step that was sampled, when its events are read.
"""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from specdecode_engine.errors import Finding, Refused
from specdecode_engine.telemetry import layout
from specdecode_engine.telemetry.layout import SPANS

FORMAT = 1
EVERY = 0.05
"""Seconds between two readings: half of what a worker waits between shipments."""

UNLABELLED = "-"
_SPAN_OF = {span.metric: span for span in SPANS}
_INFO = ("manifest_digest", "series", "device", "method")


@dataclass
class Reading:
    """The raw values of one scrape."""

    spans: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(cell, span) -> [count, seconds]."""
    drafts: float = 0
    draft_tokens: float = 0
    accepted: dict[int, float] = field(default_factory=dict)
    finished: float = 0
    dropped: float = 0
    engine: dict[str, str] = field(default_factory=dict)
    """Labels of engine_info."""


def read(exposition: str, engine: str = "0") -> Reading:
    """What /metrics says of engine `engine`."""
    reading = Reading()
    for family in text_string_to_metric_families(exposition):
        if family.name.startswith(layout.PREFIX):
            for sample in family.samples:
                if sample.labels.get("engine") == engine:
                    _keep(reading, family.name, sample.name, sample.labels, sample.value)
    return reading


def _keep(reading: Reading, family: str, name: str, labels: Mapping[str, str], value: float) -> None:
    if family in _SPAN_OF:
        cell = f"{labels['step']}/{labels['batch']}" if _SPAN_OF[family].labelled else UNLABELLED
        pair = reading.spans.setdefault((cell, _SPAN_OF[family].name), [0.0, 0.0])
        if name.endswith("_count"):
            pair[0] = value
        elif name.endswith("_sum"):
            pair[1] = value
    elif name == f"{layout.DRAFTS}_total":
        reading.drafts = value
    elif name == f"{layout.DRAFT_TOKENS}_total":
        reading.draft_tokens = value
    elif name == f"{layout.ACCEPTED}_total":
        reading.accepted[int(labels["position"])] = value
    elif name == f"{layout.FINISHED}_total":
        reading.finished = value
    elif name == f"{layout.SAMPLES_DROPPED}_total":
        reading.dropped += value
    elif name == layout.ENGINE_INFO:
        reading.engine = dict(labels)


def header(reading: Reading, every: float) -> dict[str, Any]:
    """The first line.  Raises Refused if this engine has no telemetry of ours."""
    if not reading.engine:
        raise Refused([_no_telemetry()])
    return {
        "format": FORMAT,
        "release": reading.engine["vllm_version"],
        **{name: reading.engine[name] for name in _INFO},
        "sample_every": int(reading.engine["sample_every"]),
        "every": every,
    }


def window(before: Reading, after: Reading, at: float) -> dict[str, Any] | None:
    """The line of what was counted between two readings; None if nothing was.

    Raises Refused if a counter fell: the engine was started anew, and what it counted in between is unknown.
    """
    spans: dict[str, dict[str, list[float]]] = {}
    for (cell, span), (count, seconds) in after.spans.items():
        counted, summed = before.spans.get((cell, span), (0.0, 0.0))
        if gained := _gained(span, counted, count):
            spans.setdefault(cell, {})[span] = [gained, round(seconds - summed, 9)]
    positions = range(1 + max(after.accepted, default=-1))
    line = {
        "at": round(at, 3),
        "spans": spans,
        "drafts": _gained(layout.DRAFTS, before.drafts, after.drafts),
        "draft_tokens": _gained(layout.DRAFT_TOKENS, before.draft_tokens, after.draft_tokens),
        "accepted": _trimmed(
            [_gained(layout.ACCEPTED, before.accepted.get(p, 0), after.accepted.get(p, 0)) for p in positions]
        ),
        "finished": _gained(layout.FINISHED, before.finished, after.finished),
        "dropped": _gained(layout.SAMPLES_DROPPED, before.dropped, after.dropped),
    }
    return line if any(value for name, value in line.items() if name != "at") else None


def _gained(what: str, before: float, after: float) -> int:
    if after < before:
        raise Refused([_restarted(what, before, after)])
    return int(after - before)


def _trimmed(counts: list[int]) -> list[int]:
    """Without the positions at the end that the engine never drafts."""
    return counts[: 1 + max((at for at, count in enumerate(counts) if count), default=-1)]


def record(
    scrape: Callable[[], str], *, seconds: float, every: float = EVERY, engine: str = "0"
) -> Iterator[dict[str, Any]]:
    """The lines of a recording of `seconds` seconds, as they come.  Raises Refused as `header` and `window` do."""
    before = read(scrape(), engine)
    yield header(before, every)
    start = time.monotonic()
    due = start
    while (now := time.monotonic()) - start < seconds:
        due = max(due + every, now)
        time.sleep(due - now)
        after = read(scrape(), engine)
        if line := window(before, after, time.monotonic() - start):
            yield line
        before = after


def scraped(url: str) -> Callable[[], str]:
    """A reader of the engine's /metrics at `url`.  It raises Refused if the engine doesn't answer."""
    address = f"{url.rstrip('/')}/metrics"

    def scrape() -> str:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError as error:
            raise Refused([_no_answer(address, str(error))]) from error

    return scrape


def parse(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(first line, windows) of a recording.  Raises ValueError for another format."""
    lines = [json.loads(line) for line in text.splitlines() if line]
    if not lines or lines[0].get("format") != FORMAT:
        raise ValueError(f"not a recording of format {FORMAT}: its first line is {text[:80]!r}")
    return lines[0], lines[1:]


def _no_telemetry() -> Finding:
    return Finding(
        reason="no telemetry",
        subject="/metrics",
        found=f"no {layout.ENGINE_INFO}",
        expected="an engine with the telemetry patch, started with log stats on",
        action="Look at specdecode-engine list in its image, and at the --engine given here.",
    )


def _restarted(what: str, before: float, after: float) -> Finding:
    return Finding(
        reason="engine restarted",
        subject=what,
        found=f"{after:g} after {before:g}",
        expected="counters that only rise",
        action="Record again while the engine stays up; what is in the file so far is good.",
    )


def _no_answer(address: str, error: str) -> Finding:
    return Finding(
        reason="no answer",
        subject=address,
        found=error,
        expected="the engine's metrics",
        action="Give the engine's address with --url, for example http://127.0.0.1:8000.",
    )
