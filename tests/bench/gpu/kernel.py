"""Decode attention of `specdecode_engine.kernels.decode` on this machine's GPU, beside FlashAttention 3 and upstream's.

    PYTHONPATH=<vLLM's folder>:tests:engine_patches python3 -m bench.gpu.kernel --out DIR
    PYTHONPATH=tests python3 -m bench.gpu.kernel --read DIR

Every cell is first compared with a float64 reference, twice, with NaN in the scratch.  Then launches of the kernel that
differ in one or two things are tried, and the best is timed beside the others in turn.  A call is timed in a CUDA
graph behind a kernel that reads more than the L2 cache holds; what that kernel takes alone is subtracted, so a call
that does nothing costs as much as an empty kernel does in a graph.

What asks the GPU is a process of its own, that says what it is about to try: one that dies or hangs is started again
without that.  Without vLLM on the path, or a part of it, its columns stay empty.

DIR gets kernel-raw.json.gz, all times and errors, and kernel.json, a list of cells.
"""

import argparse
import dataclasses
import functools
import json
import math
import os
import queue
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu import raw

from specdecode_engine import decode_launch
from specdecode_engine.decode_launch import Call, Launch

RAW, CELLS = "kernel-raw.json.gz", "kernel.json"
OURS, FLUSH = "ours", "flush"
QUERY_HEADS, KV_HEADS, HEAD_SIZE, BLOCK_SIZE = 32, 2, 128, 16
BATCHES = (1, 2, 4, 8, 16, 32)
LENGTHS = (4096, 32768)
SEGMENTS = (16, 64, 128)
"""Of upstream's 3D path: stock's own number, and what else its scratch may be given."""

PAIRS = 8
"""Calls a graph."""
TRIED, FINAL = 5, 25
"""Replays of a graph while launches are tried, and of the best beside the others."""
FLUSHED_BYTES = 128 * 1024 * 1024
CLOSE = 1e-2
"""Largest error, as a part of the reference in the Euclidean norm, of what is timed."""
SILENT_SECONDS = 90.0
"""After which a process that says nothing is taken to hang."""
DEVICE_FAILED = 70
"""Exit code of a process whose device answers no more."""
COMPARED_SECONDS = 3.0
"""Of each cell's time, kept for the comparison."""
OVERTIME_SECONDS = 90.0
"""After which no further process is started."""
COMPILERS = 12
COMPILE_SECONDS = 100.0


@dataclass(frozen=True)
class Cell:
    """One shape."""

    kv: int
    """Keys of the longest sequence."""
    window: int
    q: int
    causal: bool
    batch: int = 1

    def lengths(self) -> list[int]:
        """Keys of each sequence: spread evenly from an eighth of the longest up to it, in a random order."""
        step = (self.kv - self.kv // 8) // max(self.batch - 1, 1)
        lengths = [self.kv - at * step for at in range(self.batch)]
        random.Random(self.batch).shuffle(lengths)
        return lengths

    def seen_bytes(self) -> int:
        """Of keys and values that some query sees."""
        keys = sum(min(length, self.window + self.q - 1) if self.window else length for length in self.lengths())
        return keys * KV_HEADS * HEAD_SIZE * 2 * 2

    def call(self) -> Call:
        return Call(
            seqs=self.batch,
            query_len=self.q,
            query_heads=QUERY_HEADS,
            kv_heads=KV_HEADS,
            head_size=HEAD_SIZE,
            max_len=self.kv,
            window=self.window,
            kv_bytes=2,
        )

    def label(self) -> str:
        seen = f"window {self.window}" if self.window else "full"
        return f"{self.kv}, {seen}, q={self.q} {'causal' if self.causal else 'non-causal'}, batch {self.batch}"


GOALS = {
    Cell(4096, 0, 3, True): 6.5,
    Cell(34816, 0, 3, True): 14.0,
    Cell(34816, 0, 3, False): 14.0,
    Cell(34816, 1024, 3, True): 5.5,
    Cell(131072, 0, 3, True): 39.0,
    Cell(131072, 0, 8, True): 45.0,
}
"""Microseconds a call."""

GRID = list(dict.fromkeys([*GOALS, *(Cell(length, 0, 3, True, batch) for length in LENGTHS for batch in BATCHES)]))
"""The goals' rows first: they are the last to be left out when time is short."""


def kernels(cell: Cell) -> Iterator[dict[str, Any]]:
    """Settings of the split kernel that are worth a compilation for this cell, the likeliest first."""
    wide = cell.call().padded_rows > 64
    warps = 8 if wide else 4
    yield {"tile": 64, "stages": 5, "warps": warps}
    yield {"tile": 64, "stages": 5, "warps": warps, "by_block": False}
    yield {"tile": 32, "stages": 4, "warps": warps}
    yield {"tile": 64, "stages": 3, "warps": warps}
    yield {"tile": 64, "stages": 6, "warps": warps}
    yield {"tile": 32, "stages": 6, "warps": warps}
    yield {"tile": 64, "stages": 5, "warps": warps, "mask_edges": False}
    yield {"tile": 64, "stages": 5, "warps": warps, "prefetched": False}
    yield {"tile": 64, "stages": 5, "warps": warps, "chained": False}
    if cell.batch > 1:
        return
    yield {"tile": 128, "stages": 2 if wide else 3, "warps": 8}
    yield {"tile": 64, "stages": 4, "warps": warps}
    if cell.window or cell.kv <= 4096:
        yield {"tile": 32, "stages": 2, "warps": warps}
        yield {"tile": 16, "stages": 2, "warps": warps}
        yield {"tile": 16, "stages": 4, "warps": warps}
        return
    yield {"tile": 32, "stages": 8, "warps": warps}
    yield {"tile": 64, "stages": 7, "warps": warps, "by_block": False}
    yield {"tile": 32, "stages": 4, "warps": warps, "mask_edges": False}
    yield {"tile": 64, "stages": 5, "warps": 4 if wide else 8}


def launches(cell: Cell, multiprocessors: int) -> Iterator[Launch]:
    """Every one of `kernels` with a program and with two a multiprocessor, the rule's own choice first of all."""
    call = cell.call()
    rule = decode_launch.choose(call, multiprocessors=multiprocessors, chained=True)
    seen = set()
    slots = max(multiprocessors // KV_HEADS, 1)
    for settings in [{}, *kernels(cell)]:
        changed = dataclasses.replace(rule, **settings)
        for times in (1, 2):
            employed = cell.batch * -(-call.visible // changed.tile)
            programs = rule.programs if not settings else min(times * slots + cell.batch - 1, employed)
            launch = dataclasses.replace(changed, programs=max(programs, cell.batch))
            if launch not in seen:
                seen.add(launch)
                yield launch


def finer(best: Launch, cell: Cell, multiprocessors: int) -> Iterator[Launch]:
    """What differs from the best so far only in programs and in the reduction: little or nothing to compile."""
    employed = cell.batch * -(-cell.call().visible // best.tile)
    slots = max(multiprocessors // KV_HEADS, 1)
    for times in (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0):
        programs = max(min(round(times * slots) + cell.batch - 1, employed), cell.batch)
        if programs != best.programs:
            yield dataclasses.replace(best, programs=programs)
    for width in (32, 128):
        yield dataclasses.replace(best, width=width)


def label(launch: Launch) -> str:
    """A launch in short: tile 64, 5 stages, 4 warps, 66 programs, and what is not as usual."""
    off = {
        "by key": not launch.by_block,
        "masks everywhere": not launch.mask_edges,
        "no prefetch": not launch.prefetched,
        "not chained": not launch.chained,
    }
    said = ", ".join(name for name, is_so in off.items() if is_so)
    short = f"t{launch.tile} s{launch.stages} w{launch.warps} p{launch.programs} r{launch.width}"
    return f"{short} {said}" if said else short


# --- on the GPU -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """A cell's tensors, as vLLM lays them out."""

    q: Any
    """[tokens, query heads, head size] bf16."""
    k: Any
    """[blocks, block size, KV heads, head size] bf16, a view: keys and values of a block lie side by side."""
    v: Any
    table: Any
    """[sequences, blocks of the longest] int32, blocks in a random order."""
    seq_lens: Any
    query_starts: Any
    sinks: Any
    scale: float = 1 / math.sqrt(HEAD_SIZE)


def inputs(cell: Cell, device: str = "cuda") -> Inputs:
    """Random values from a fixed seed."""
    import torch

    gen = torch.Generator(device).manual_seed(1)
    rand = functools.partial(torch.randn, generator=gen, device=device, dtype=torch.bfloat16)
    counts = [-(-length // BLOCK_SIZE) for length in cell.lengths()]
    cache = rand(sum(counts) + 1, 2, BLOCK_SIZE, KV_HEADS, HEAD_SIZE)
    order = torch.randperm(sum(counts), generator=gen, device=device).to(torch.int32) + 1
    table = torch.zeros(cell.batch, max(counts), dtype=torch.int32, device=device)
    at = 0
    for row, count in enumerate(counts):
        table[row, :count] = order[at : at + count]
        at += count
    return Inputs(
        q=rand(cell.batch * cell.q, QUERY_HEADS, HEAD_SIZE),
        k=cache[:, 0],
        v=cache[:, 1],
        table=table,
        seq_lens=torch.tensor(cell.lengths(), dtype=torch.int32, device=device),
        query_starts=torch.arange(cell.batch + 1, dtype=torch.int32, device=device) * cell.q,
        sinks=rand(QUERY_HEADS),
    )


def reference(cell: Cell, given: Inputs) -> Any:
    """Softmax over the visible keys and the sink, in float64: [tokens, query heads, head size]."""
    import torch

    out = []
    group = QUERY_HEADS // KV_HEADS
    for row, length in enumerate(cell.lengths()):
        begin = max(length - cell.q - cell.window + 1, 0) if cell.window else 0
        slots = torch.arange(begin, length, device=given.q.device)
        blocks = given.table[row].long()[slots // BLOCK_SIZE]
        keys = given.k[blocks, slots % BLOCK_SIZE].double()
        values = given.v[blocks, slots % BLOCK_SIZE].double()
        q = given.q[row * cell.q : (row + 1) * cell.q].double().view(cell.q, KV_HEADS, group, HEAD_SIZE)
        scores = torch.einsum("qkgd,skd->qkgs", q, keys) * given.scale
        position = length - cell.q + torch.arange(cell.q, device=given.q.device)
        ahead = slots[None, :] - position[:, None]
        seen = ahead <= 0 if cell.causal else torch.ones_like(ahead, dtype=torch.bool)
        if cell.window:
            seen &= ahead.abs() < cell.window
        scores = scores.masked_fill(~seen[:, None, None, :], -math.inf)
        sinks = given.sinks.double().view(1, KV_HEADS, group, 1).expand(cell.q, -1, -1, 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(dim=-1)[..., :-1]
        out.append(torch.einsum("qkgs,skd->qkgd", weights, values).reshape(cell.q, QUERY_HEADS, HEAD_SIZE))
    return torch.cat(out)


def ours(cell: Cell, given: Inputs, launch: Launch, out: Any) -> Callable[[], None]:
    """A call of our kernel; its scratch holds NaN before the first."""
    from specdecode_engine.kernels import decode

    scratch = decode.Scratch.of(cell.call(), launch, given.q.device)
    scratch.partial.fill_(math.nan)
    scratch.log_sum.fill_(math.nan)
    return functools.partial(
        decode.attend,
        given.q,
        given.k,
        given.v,
        out,
        block_table=given.table,
        seq_lens=given.seq_lens,
        query_len=cell.q,
        max_len=cell.kv,
        scale=given.scale,
        causal=cell.causal,
        launch=launch,
        scratch_of=scratch,
        window=cell.window,
        sinks=given.sinks,
    )


def flash_attention(cell: Cell, given: Inputs, out: Any) -> Callable[[], None]:
    """FlashAttention 3 as vLLM has it.  Raises ImportError without."""
    from vllm.vllm_flash_attn import flash_attn_varlen_func

    ahead = -1 if not cell.window else 0 if cell.causal else cell.window - 1
    return functools.partial(
        flash_attn_varlen_func,
        given.q,
        given.k,
        given.v,
        max_seqlen_q=cell.q,
        cu_seqlens_q=given.query_starts,
        max_seqlen_k=cell.kv,
        seqused_k=given.seq_lens,
        softmax_scale=given.scale,
        causal=cell.causal,
        window_size=[cell.window - 1, ahead],
        block_table=given.table,
        out=out,
        fa_version=3,
        s_aux=given.sinks,
    )


def upstream(cell: Cell, given: Inputs, segments: int | None, out: Any) -> Callable[[], None]:
    """vLLM's unified Triton attention, 3D with so many segments or (None) 2D.  Raises ImportError without."""
    import torch
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    rows = (given.q.shape[0], QUERY_HEADS, segments or 1)
    partial, largest, total = (
        torch.empty(shape, dtype=torch.float32, device=given.q.device) for shape in ((*rows, HEAD_SIZE), rows, rows)
    )
    ahead = -1 if not cell.window else 0 if cell.causal else cell.window - 1
    return functools.partial(
        unified_attention,
        q=given.q,
        k=given.k,
        v=given.v,
        out=out,
        cu_seqlens_q=given.query_starts,
        max_seqlen_q=cell.q,
        seqused_k=given.seq_lens,
        max_seqlen_k=cell.kv,
        softmax_scale=given.scale,
        causal=cell.causal,
        window_size=(cell.window - 1, ahead),
        block_table=given.table,
        softcap=0,
        q_descale=None,
        k_descale=None,
        v_descale=None,
        seq_threshold_3D=None if segments is None else 1 << 20,
        num_par_softmax_segments=segments,
        softmax_segm_output=partial,
        softmax_segm_max=largest,
        softmax_segm_expsum=total,
        sinks=given.sinks,
    )


def others(cell: Cell, given: Inputs, out: Any) -> Iterator[tuple[str, Callable[[], Callable[[], None]]]]:
    """What ours is compared with: name -> what makes the call, which may fail."""
    yield "fa3", functools.partial(flash_attention, cell, given, out)
    yield "2d", functools.partial(upstream, cell, given, None, out)
    if cell.causal or cell.q == 1:
        for segments in SEGMENTS:
            yield f"3d-{segments}", functools.partial(upstream, cell, given, segments, out)


def error(call: Callable[[], None], out: Any, expected: Any) -> float:
    """|out - expected| / |expected| of one call; NaN if a value was not written, or differs in a second call."""
    import torch

    out.fill_(math.nan)
    call()
    first = out.clone()
    out.fill_(math.nan)
    call()
    torch.cuda.synchronize()
    if not torch.equal(first, out):
        return math.nan
    return float((first.double() - expected).norm() / expected.norm())


def graph_of(call: Callable[[], None], flush: Callable[[], None]) -> Any:
    """PAIRS times a flush, then the call; it has run before, so nothing is compiled here."""
    import torch

    flush()
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(PAIRS):
            flush()
            call()
    return graph


def timed(graphs: Mapping[str, Any], replays: int) -> dict[str, list[float]]:
    """Microseconds a call of each graph less the median of the flush's, from replays in turn."""
    import torch

    def once(graph: Any) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / PAIRS

    taken: dict[str, list[float]] = {name: [] for name in graphs}
    for graph in graphs.values():
        once(graph)
    for _ in range(replays):
        for name, graph in graphs.items():
            taken[name].append(once(graph))
    base = statistics.median(taken.pop(FLUSH))
    return {name: [round(value - base, 3) for value in values] for name, values in taken.items()}


def flusher() -> Callable[[], None]:
    """What reads more than the L2 cache holds, and leaves nothing in it that has to be written back."""
    import torch

    buffer = torch.zeros(FLUSHED_BYTES // 4, dtype=torch.float32, device="cuda")
    found = torch.zeros((), dtype=torch.float32, device="cuda")
    return functools.partial(torch.sum, buffer, dim=0, out=found)


def bandwidth() -> float:
    """Bytes a second of a copy on the device, read and written, the best of several."""
    import torch

    source, target = (torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    best = math.inf
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e-3)
    return 2 * (1 << 30) / best


def facts() -> dict[str, Any]:
    import torch
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "copy_bytes_per_second": bandwidth(),
    }


def said(exception: BaseException) -> str:
    """The last that it says; a compiler's reasons can be pages."""
    return f"{type(exception).__name__}: {exception}"[-600:]


# --- the process that asks the GPU ----------------------------------------------------------------------------------


def tell(**line: Any) -> None:
    """One line to the process that started this one."""
    print(json.dumps(line), flush=True)


def broken() -> bool:
    """Whether the device has stopped answering this process: after a fault it answers no more."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


@dataclass(frozen=True)
class Asked:
    """One cell on the device."""

    at: int
    """Of `GRID`."""
    given: Inputs
    out: Any
    expected: Any
    flush: Callable[[], None]
    nothing: Any
    """The graph of the flush alone."""
    banned: Set[str]
    """What is not tried: a process died of it."""

    @property
    def cell(self) -> Cell:
        return GRID[self.at]

    def attempt(self, name: str, act: Callable[[], Any]) -> Any:
        """What `act` gives, None where it fails; the process ends where the device fails with it."""
        if name in self.banned:
            return None
        tell(trying=[self.at, name])
        try:
            return act()
        except Exception as exception:
            tell(cell=self.at, tried=name, failed=said(exception))
            if broken():
                sys.exit(DEVICE_FAILED)
            return None

    def captured(self, name: str, make: Callable[[], Callable[[], None]]) -> tuple[Any, float] | None:
        """The graph of a call and its error, if it can be run."""

        def act() -> tuple[Any, float]:
            call = make()
            wrong = error(call, self.out, self.expected)
            tell(cell=self.at, tried=name, error=wrong)
            return graph_of(call, self.flush), wrong

        found: tuple[Any, float] | None = self.attempt(name, act)
        return found

    def timed(self, name: str, graphs: Mapping[str, Any], replays: int) -> dict[str, list[float]]:
        """Of each graph, in turn; empty where that fails."""
        found = self.attempt(name, lambda: timed({FLUSH: self.nothing, **graphs}, replays))
        return found or {}

    def tried(self, launch: Launch) -> "Tried | None":
        """Our kernel so launched, if it can be run and is right."""
        name = label(launch)
        done = self.captured(name, functools.partial(ours, self.cell, self.given, launch, self.out))
        if done is None or not done[1] < CLOSE:
            return None
        values = self.timed(name, {name: done[0]}, TRIED).get(name)
        if not values:
            return None
        tell(cell=self.at, tried=name, launch=dataclasses.asdict(launch), us=values)
        return Tried(statistics.median(values), launch, done[0])

    def best(self, multiprocessors: int, until: float) -> "Tried | None":
        """The fastest of `launches`, then of what is `finer` than it; at least one that runs, however late it is."""
        best: Tried | None = None
        for launch in launches(self.cell, multiprocessors):
            best = faster(best, self.tried(launch) if best is None or time.time() < until else None)
        for launch in finer(best.launch, self.cell, multiprocessors) if best is not None else ():
            best = faster(best, self.tried(launch) if time.time() < until else None)
        return best

    def compared(self, best: "Tried | None") -> None:
        """Time the best beside the others, and tell."""
        graphs = {} if best is None else {OURS: best.graph}
        for name, make in others(self.cell, self.given, self.out):
            done = self.captured(name, make)
            if done is not None:
                graphs[name] = done[0]
        told = {} if best is None else {"launch": dataclasses.asdict(best.launch), "name": label(best.launch)}
        tell(cell=self.at, final=self.timed("final", graphs, FINAL), **told)


@dataclass(frozen=True)
class Tried:
    us: float
    launch: Launch
    graph: Any


def faster(one: Tried | None, other: Tried | None) -> Tried | None:
    """Of two, the one that takes less time; None loses."""
    return min((found for found in (one, other) if found is not None), key=lambda found: found.us, default=None)


def measure(todo: Sequence[int], banned: Set[tuple[int, str]], until: float) -> None:
    """Ask the GPU for each cell in turn; each may take its part of what time is left."""
    import torch

    told = facts()
    tell(facts=told)
    flush = flusher()
    nothing = graph_of(lambda: None, flush)
    for nth, at in enumerate(todo):
        share = time.time() + (until - time.time()) / (len(todo) - nth)
        cell = GRID[at]
        given = inputs(cell)
        expected = reference(cell, given)
        names = {name for where, name in banned if where == at}
        asked = Asked(at, given, torch.empty_like(given.q), expected, flush, nothing, names)
        asked.compared(asked.best(told["multiprocessors"], share - COMPARED_SECONDS))


def to_compile(multiprocessors: int) -> Iterator[tuple[Cell, Launch | None]]:
    """Cells and launches of which no two are the same to the compiler; None: all that the cell is compared with."""
    seen = set()
    for cell in GRID:
        shape = (cell.window, cell.q, cell.causal, decode_launch.power_of_two(cell.batch))
        rule, *rest = launches(cell, multiprocessors)
        for launch in (None, rule, *rest, *finer(rule, cell, multiprocessors)):
            key = (shape, launch and dataclasses.replace(launch, programs=0))
            if key not in seen:
                seen.add(key)
                yield cell, launch


def compile_share(share: int, of: int) -> None:
    """Run each `of`-th of what `measure` will try once, so that it is compiled and cached."""
    import torch

    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    for cell, launch in list(to_compile(multiprocessors))[share::of]:
        given = inputs(cell)
        out = torch.empty_like(given.q)
        mine = functools.partial(ours, cell, given, launch, out) if launch else None
        for make in [mine] if mine else [make for _, make in others(cell, given, out)]:
            try:
                make()()
            except Exception as exception:
                print(said(exception), file=sys.stderr)


# --- the process that was asked -------------------------------------------------------------------------------------


def compiled(environment: Mapping[str, str]) -> None:
    """Fill Triton's cache from several processes at once; what they do not finish is compiled when it is needed."""
    command = [sys.executable, "-m", "bench.gpu.kernel", "--compile"]
    started = [
        subprocess.Popen(
            [*command, f"{share}/{COMPILERS}"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for share in range(COMPILERS)
    ]
    until = time.monotonic() + COMPILE_SECONDS
    for process in started:
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def heard(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """What a process says, line by line, until it ends; one that is silent for too long is killed."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=SILENT_SECONDS)
        except queue.Empty:
            process.kill()
            return
        if line is None:
            return
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def record(out: Path, minutes: float) -> None:
    """Ask, again where the asked process died, and keep everything it says."""
    begun = time.time()
    out.mkdir(parents=True, exist_ok=True)
    file = out / RAW
    file.unlink(missing_ok=True)
    raw.add(file, {"format": raw.FORMAT, "kernel": "decode", "grid": [dataclasses.asdict(cell) for cell in GRID]})
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    compiled(environment)
    print(f"compiled in {time.time() - begun:.0f} s", flush=True)
    todo, banned = list(range(len(GRID))), set[tuple[int, str]]()
    until = begun + 60 * minutes
    while todo and time.time() < until + OVERTIME_SECONDS:
        arguments = {"todo": todo, "banned": sorted(banned), "until": until}
        command = [sys.executable, "-m", "bench.gpu.kernel", "--measure", json.dumps(arguments)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        last: tuple[int, str] | None = None
        for line in heard(process):
            if "trying" in line:
                last = (line["trying"][0], line["trying"][1])
                continue
            raw.add(file, line)
            if "final" in line:
                todo.remove(line["cell"])
                print(row(GRID[line["cell"]], line, None), flush=True)
        code = process.wait()
        if todo:
            print(f"the process that asks the GPU ended with {code} at {last}", flush=True)
            raw.add(file, {"ended": code, "at": last})
        if last is not None and last[0] in todo and last not in banned:
            banned.add(last)
        elif todo:
            todo.pop(0)


def _median(final: Mapping[str, Sequence[float]], names: Sequence[str]) -> float | None:
    found = [statistics.median(final[name]) for name in names if final.get(name)]
    return round(min(found), 2) if found else None


def upstreams(final: Mapping[str, Any]) -> list[str]:
    """The names of upstream's paths among what was timed."""
    return [name for name in final if name == "2d" or name.startswith("3d-")]


def cells(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What kernel.json holds: a row a cell that was measured."""
    speed = max((line["facts"]["copy_bytes_per_second"] for line in lines if "facts" in line), default=math.nan)
    found = []
    for line in lines:
        if "final" not in line:
            continue
        cell, final = GRID[line["cell"]], line["final"]
        found.append(
            {
                **dataclasses.asdict(cell),
                "floor_us": round(cell.seen_bytes() / speed * 1e6, 2),
                "fa3_us": _median(final, ["fa3"]),
                "upstream_us": _median(final, upstreams(final)),
                "ours_us": _median(final, [OURS]),
                "run": RAW,
            }
        )
    return found


def row(cell: Cell, line: Mapping[str, Any], floor: float | None) -> str:
    """A cell in one line: medians, with the quartiles of ours."""
    final = line["final"]
    spread = ""
    if len(final.get(OURS) or []) > 1:
        low, _, high = statistics.quantiles(final[OURS], n=4)
        spread = f" [{low:.2f}, {high:.2f}]"
    times = {name: statistics.median(values) for name, values in final.items() if values}
    text = "  ".join(f"{name} {value:.2f}{spread if name == OURS else ''}" for name, value in times.items())
    goal = f"  goal {GOALS[cell]}" if cell in GOALS else ""
    bound = f"  floor {floor:.2f}" if floor is not None else ""
    return f"{cell.label()}: {text}{bound}{goal}  ({line.get('name')})"


def text(lines: Sequence[Mapping[str, Any]]) -> str:
    """All rows, with the ten fastest launches of each and what failed."""
    floors = {(c["kv"], c["window"], c["q"], c["causal"], c["batch"]): c["floor_us"] for c in cells(lines)}
    shown = []
    for line in lines:
        if "final" in line:
            cell = GRID[line["cell"]]
            shown.append(row(cell, line, floors[dataclasses.astuple(cell)]))
            of_cell = [one for one in lines if one.get("cell") == line["cell"]]
            tries = sorted((statistics.median(one["us"]), one["tried"]) for one in of_cell if "us" in one)
            shown += [f"    {value:8.2f}  {name}" for value, name in tries[:10]]
            shown += [f"    failed: {one['tried']}: {one['failed'][:160]!r}" for one in of_cell if "failed" in one]
            wrong = {one["tried"]: one["error"] for one in of_cell if "error" in one and not one["error"] < CLOSE}
            shown += [f"    wrong: {name}: {value}" for name, value in wrong.items()]
    return "\n".join(shown)


def main(argv: Sequence[str] | None = None) -> int:
    """Record and show, or show."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.kernel", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write the raw file and kernel.json")
    parser.add_argument("--minutes", type=float, default=4.0, help="end within about so many (default 4)")
    parser.add_argument("--read", type=Path, metavar="DIR", help="show what is there instead")
    parser.add_argument("--compile", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.compile:
        share, of = args.compile.split("/")
        compile_share(int(share), int(of))
        return 0
    if args.measure:
        asked = json.loads(args.measure)
        measure(asked["todo"], {(at, name) for at, name in asked["banned"]}, asked["until"])
        return 0
    folder = args.read or args.out
    if not folder:
        parser.error("needed: --out, or --read")
    if args.out and not args.read:
        record(args.out, args.minutes)
    lines = raw.lines(folder / RAW)
    if args.out:
        (args.out / CELLS).write_text(json.dumps(cells(lines), indent=1) + "\n")
    print(text(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
