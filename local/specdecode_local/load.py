"""A bounded load of streaming completions, which counts every request that did not end as it should.

Each of `streams` workers sends one completion after the other until the time is over, then finishes the one in flight.
There is no retry anywhere: a request counts as done only if its stream came back with status 200, the number of tokens
that was asked for, and the closing `[DONE]`. Anything else is a failure with its reason.

Loads go to this machine alone; any other address is refused.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

MAX_STREAMS = 200
MAX_SECONDS = 3600.0
LOCAL_NETWORKS = tuple(
    ipaddress.ip_network(n) for n in ("127.0.0.0/8", "10.99.7.0/24", "10.244.0.0/16", "10.96.0.0/16")
)
CONNECT_SECONDS = 60.0
"""Engines on two cores can keep the client itself from running for many seconds; a refused connection fails at once."""
SILENCE_SECONDS = 300.0
"""How long a stream may stay without a token: a CPU engine with a queue is slow, yet a hung one must end the run."""


@dataclass(frozen=True)
class Target:
    """Where a completion is sent, and what it asks for."""

    url: str
    model: str
    host: str | None = None
    """Value of the Host header, by which the gateway finds the route; None: the URL's own."""
    max_tokens: int = 64
    prompt: str = "Tell me about drafts and verifies."

    def headers(self) -> dict[str, str]:
        return {"host": self.host} if self.host else {}

    def body(self) -> dict[str, object]:
        return {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass
class Report:
    """What came of a load. Times in seconds."""

    completed: int = 0
    failed: int = 0
    tokens: int = 0
    in_flight: int = 0
    longest_seconds: float = 0.0
    shortest_seconds: float = float("inf")
    failures: Counter[str] = field(default_factory=Counter)

    def note(self, failure: str | None, *, tokens: int, seconds: float) -> None:
        self.tokens += tokens
        if failure is None:
            self.completed += 1
            self.longest_seconds = max(self.longest_seconds, seconds)
            self.shortest_seconds = min(self.shortest_seconds, seconds)
        else:
            self.failed += 1
            self.failures[failure] += 1

    def sentence(self) -> str:
        spread = f", each {self.shortest_seconds:.1f} to {self.longest_seconds:.1f} s" if self.completed else ""
        reasons = "".join(f"\n  {count} x {reason}" for reason, count in self.failures.most_common(10))
        return f"{self.completed} completed{spread}, {self.failed} failed, {self.tokens} tokens{reasons}"


def refuse_foreign(url: str) -> None:
    """Raise ValueError unless the URL names an address of this machine or of its cluster."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is None or not any(address in network for network in LOCAL_NETWORKS):
        raise ValueError(
            f"--url: found host {host!r}; a load goes to an address of this machine only, such as 127.0.0.1"
        )


def read_chunk(line: str) -> tuple[bool, int | None]:
    """(is this the closing line, completion tokens if the chunk carries the usage) of one server-sent event line."""
    if not line.startswith("data:"):
        return False, None
    data = line.removeprefix("data:").strip()
    if data == "[DONE]":
        return True, None
    chunk = json.loads(data)
    if "error" in chunk:
        raise StreamError(f"error in the stream: {str(chunk['error'])[:200]}")
    usage = chunk.get("usage")
    return False, usage["completion_tokens"] if usage else None


class StreamError(Exception):
    """The server said inside a stream that the request failed."""


async def one_stream(client: httpx.AsyncClient, target: Target) -> tuple[str | None, int]:
    """Send one completion; return (why it failed or None, tokens received)."""
    tokens, done = 0, False
    try:
        async with client.stream("POST", target.url, json=target.body(), headers=target.headers()) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode(errors="replace")
                return f"status {response.status_code}: {text[:200]}", 0
            async for line in response.aiter_lines():
                closing, counted = read_chunk(line)
                done = done or closing
                tokens = counted if counted is not None else tokens
    except (httpx.HTTPError, StreamError, json.JSONDecodeError) as error:
        return f"{type(error).__name__}: {error}", tokens
    if not done:
        return "the stream ended without [DONE]", tokens
    if tokens != target.max_tokens:
        return f"{tokens} tokens came, {target.max_tokens} were asked for", tokens
    return None, tokens


async def run_load(
    target: Target,
    *,
    streams: int,
    seconds: float,
    stop: asyncio.Event | None = None,
    all_in_flight: asyncio.Event | None = None,
    report: Report | None = None,
    on_tick: Callable[[Report], None] | None = None,
) -> Report:
    """Keep `streams` completions in flight for `seconds` (or until `stop` is set), then let the last ones finish.

    `all_in_flight` is set once every worker has sent its first request. Raises ValueError for a foreign address.
    """
    refuse_foreign(target.url)
    report = report or Report()
    stop = stop or asyncio.Event()
    timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    limits = httpx.Limits(max_connections=streams, max_keepalive_connections=streams)

    async def worker(client: httpx.AsyncClient) -> None:
        while not stop.is_set():
            began = time.monotonic()
            report.in_flight += 1
            if all_in_flight and report.in_flight == streams:
                all_in_flight.set()
            failure, tokens = await one_stream(client, target)
            report.in_flight -= 1
            report.note(failure, tokens=tokens, seconds=time.monotonic() - began)

    async def clock() -> None:
        deadline = time.monotonic() + seconds
        while not stop.is_set() and (left := deadline - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(stop.wait(), timeout=min(5.0, left))
            except TimeoutError:
                if on_tick:
                    on_tick(report)
        stop.set()

    async with httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False) as client:
        await asyncio.gather(clock(), *(worker(client) for _ in range(streams)))
    return report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", default="http://127.0.0.1:8080/v1/completions", help="completions endpoint on this machine"
    )
    parser.add_argument("--host", help="Host header, the hostname of the route")
    parser.add_argument("--model", required=True, help="served model name")
    parser.add_argument("--streams", type=int, default=4, help=f"streams in flight, 1 to {MAX_STREAMS} (default 4)")
    parser.add_argument("--max-tokens", type=int, default=64, help="tokens of each completion (default 64)")
    parser.add_argument("--seconds", type=float, default=30.0, help=f"how long, at most {MAX_SECONDS:.0f} (default 30)")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 if every request ended as it should, 1 if any failed, 64 on bad arguments."""
    if not 1 <= args.streams <= MAX_STREAMS or not 0 < args.seconds <= MAX_SECONDS or args.max_tokens < 1:
        print(
            f"load: --streams 1 to {MAX_STREAMS}, --seconds up to {MAX_SECONDS:.0f}, --max-tokens from 1",
            file=sys.stderr,
        )
        return 64
    target = Target(url=args.url, model=args.model, host=args.host, max_tokens=args.max_tokens)

    def tick(report: Report) -> None:
        print(f"  {report.in_flight} in flight, {report.completed} completed, {report.failed} failed", flush=True)

    try:
        report = asyncio.run(run_load(target, streams=args.streams, seconds=args.seconds, on_tick=tick))
    except ValueError as error:
        print(f"load: {error}", file=sys.stderr)
        return 64
    print(report.sentence())
    return 1 if report.failed or not report.completed else 0
