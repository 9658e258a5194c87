"""The device's own clock: a kernel that writes down when it runs.  Imported on the device alone."""

import torch
import triton
import triton.language as tl

APART = 2
"""Integers from one cell to the next: where a pointer is no multiple of 16 bytes, Triton makes another kernel."""


@triton.jit
def _now(out, READS: tl.constexpr):
    """%globaltimer in nanoseconds, READS times in a row.  out: int64 [READS]; one program of one warp."""
    for at in tl.static_range(READS):
        tl.store(out + at, tl.extra.cuda.globaltimer())


def cells(count: int) -> torch.Tensor:
    """Room for so many times; int64 [count, APART], the first column is written."""
    return torch.zeros(count, APART, dtype=torch.int64, device="cuda")


def write(cell: torch.Tensor) -> None:
    """Write the time into a row of `cells` when the current stream, or the graph that it captures, comes to it."""
    _now[(1,)](cell, READS=1, num_warps=1)


def reads(count: int) -> list[int]:
    """Times that one kernel reads one after the other."""
    out = torch.empty(count, dtype=torch.int64, device="cuda")
    _now[(1,)](out, READS=count, num_warps=1)
    return out.tolist()


def event_reads(count: int) -> list[float]:
    """Nanoseconds from an event to each of so many that follow it on an idle stream."""
    first, *events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    first.record()
    for event in events:
        event.record()
    torch.cuda.synchronize()
    return [round(1e6 * first.elapsed_time(event), 1) for event in events]
