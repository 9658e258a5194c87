"""From the command line and the environment to the exit status."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

from engine_standin import arguments, settings, version
from engine_standin.arguments import Arguments
from engine_standin.observed import attested
from engine_standin.server import Engine, listen
from engine_standin.settings import Settings
from specdecode_engine import start
from specdecode_engine.attestation import Attestation
from specdecode_engine.errors import Refused


def say(text: str) -> None:
    print(f"engine-standin: {text}", flush=True)


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def serve(parsed: Arguments, chosen: Settings, checked: Attestation) -> int:
    """From start to exit status."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if await _within(stop, chosen.start_delay_seconds):
        return 0
    if chosen.crash_message:
        complain(chosen.crash_message)
        return chosen.exit_code
    ballast = b"\x01" * (chosen.ballast_mib * 1024**2)
    engine = Engine(parsed, chosen, checked)
    runner, port = await listen(engine)
    say(f"serving {', '.join(parsed.served_names)} on port {port}, {len(ballast) // 1024**2} MiB ballast")
    gc.collect()
    gc.freeze()
    stopped = await _within(stop, chosen.exit_after_seconds or None)
    if not stopped:
        complain(f"engine-standin: exiting with {chosen.exit_code} after {chosen.exit_after_seconds:g} s, as asked")
        # As a crash would: no drain, connections cut.
        os._exit(chosen.exit_code)
    say(f"draining {engine.running} requests for up to {parsed.shutdown_timeout} s")
    complete = await engine.drain()
    say("drained" if complete else "ended what was still in flight")
    await runner.cleanup()
    return 0


async def _within(event: asyncio.Event, seconds: float | None) -> bool:
    """Waits for the event, for ever when `seconds` is None; whether it came."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


def main() -> int:
    try:
        chosen = settings.from_environment(os.environ)
    except settings.SettingError as error:
        complain(f"engine-standin: {error}")
        return 2
    parsed = arguments.parse(sys.argv[1:])
    say(f"version {version(chosen.release)}: a stand-in for the engine, it has no model")
    if parsed.ignored:
        say(f"ignored: {' '.join(parsed.ignored)}")
    try:
        checked = attested(chosen, os.environ)
    except Refused as refused:
        start.stop(refused)
    return asyncio.run(serve(parsed, chosen, checked))
