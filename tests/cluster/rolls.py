"""A changed spec with requests in flight."""

from __future__ import annotations

import asyncio

from apiserver import Object
from workspace import Workspace

from specdecode_local.load import Report, Target, run_load


async def roll_under_load(
    workspace: Workspace, name: str, change: Object, *, target: Target, streams: int, seconds: float
) -> Report:
    """Change the spec with all streams in flight; stop the load once every slot has changed, within `seconds`."""
    report, stop, all_in_flight = Report(), asyncio.Event(), asyncio.Event()

    async def roll() -> None:
        try:
            await all_in_flight.wait()
            await asyncio.to_thread(workspace.change, name, change)
            await asyncio.to_thread(workspace.await_settled, name, seconds=seconds)
        finally:
            stop.set()

    # Longer than the roll may take, so that no moment of it is without a load.
    load = run_load(
        target, streams=streams, seconds=1.25 * seconds, stop=stop, all_in_flight=all_in_flight, report=report
    )
    await asyncio.gather(roll(), load)
    return report
