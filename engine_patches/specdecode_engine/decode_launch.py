"""How a decode attention call of `kernels.decode` is launched: programs, tile, pipeline, and the scratch that it needs.

Pure, and of no device value: what is chosen when a CUDA graph is captured is right for each of its replays, however
long the sequences are then.  How the sequences in hand share the programs is settled on the device.
"""

from dataclasses import dataclass

UNIT = 16
"""Keys: programs' ranges begin at multiples of it.  It divides every block size, so a unit lies in one block."""
MAX_QUERY_LEN = 8
MAX_GROUP = 16
MIN_ROWS = 16
"""Rows of the smallest matrix product."""
SHARED_BYTES = 227 * 1024
"""Shared memory that a program can have (sm_90)."""
DEEPEST = 6
"""Stages, at most."""


@dataclass(frozen=True)
class Call:
    """What is known of a call before it is launched."""

    seqs: int
    """Sequences, graph padding included."""
    query_len: int
    """Query tokens of each."""
    query_heads: int
    kv_heads: int
    head_size: int
    max_len: int
    """Keys of a sequence, at most, the new ones included."""
    window: int
    """Keys that a query sees, itself included; 0 for all."""
    kv_bytes: int
    """Bytes of one cached value."""

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query_heads // self.kv_heads

    @property
    def rows(self) -> int:
        """Queries that read one KV head of one sequence."""
        return self.query_len * self.group

    @property
    def padded_rows(self) -> int:
        return max(MIN_ROWS, power_of_two(self.rows))

    @property
    def padded_head(self) -> int:
        return power_of_two(self.head_size)

    @property
    def visible(self) -> int:
        """Keys that any query of one sequence sees, at most."""
        return min(self.max_len, self.window + self.query_len - 1) if self.window else self.max_len


@dataclass(frozen=True)
class Launch:
    """One way to run a call."""

    programs: int
    """Programs a KV head; they share the keys that the batch's sequences leave visible."""
    tile: int
    """Keys a step of a program's loop: a power of two."""
    stages: int
    """Steps whose keys and values are on their way at once."""
    warps: int
    chained: bool
    """The reduction is launched while the programs still run (programmatic dependent launch, from sm_90 on)."""
    width: int = 64
    """Values of a head that one program of the reduction adds up: a power of two."""
    by_block: bool = True
    """Block tables are read an entry a block, outside of the pipeline, not one a key, as a stage of it."""
    mask_edges: bool = True
    """Only tiles with a key that some query does not see are masked."""
    prefetched: bool = True
    """Block tables are asked for before the lengths are known, if they are short."""

    @property
    def least(self) -> int:
        """Keys below which no further program is put to work."""
        return self.tile


def power_of_two(number: int) -> int:
    """The least power of two not below it."""
    return 1 << (number - 1).bit_length()


def unsupported(call: Call, *, block_size: int) -> str | None:
    """Why this call cannot be run; None if it can."""
    if not 1 <= call.query_len <= MAX_QUERY_LEN:
        return f"query_len is {call.query_len}; 1 to {MAX_QUERY_LEN} can be run"
    if call.query_heads % call.kv_heads or not 1 <= call.group <= MAX_GROUP:
        return f"{call.query_heads} query heads on {call.kv_heads} KV heads; groups of 1 to {MAX_GROUP} can be run"
    if not 64 <= call.head_size <= 256:
        return f"head_size is {call.head_size}; 64 to 256 can be run"
    if block_size % UNIT:
        return f"block_size is {block_size}; multiples of {UNIT} can be run"
    return None


def choose(call: Call, *, multiprocessors: int, chained: bool) -> Launch:
    """Programs for every multiprocessor, and one more for each further sequence: its last range may be a short one."""
    tile = 64
    warps = 8 if call.padded_rows > 64 or call.padded_head > 128 else 4
    slots = max(multiprocessors // call.kv_heads, 1) + call.seqs - 1
    employed = call.seqs * -(-call.visible // tile)
    return Launch(
        programs=max(min(slots, employed), call.seqs),
        tile=tile,
        stages=stages(call, tile=tile),
        warps=warps,
        chained=chained,
    )


def stages(call: Call, *, tile: int) -> int:
    """The deepest pipeline whose tiles fit in shared memory beside the queries."""
    queries = 2 * call.padded_rows * call.padded_head
    step = 2 * tile * call.padded_head * call.kv_bytes
    converted = 0 if call.kv_bytes > 1 else 4 * tile * call.padded_head
    return max(2, min(DEEPEST, (SHARED_BYTES - queries - converted) // step))


def scratch(call: Call, launch: Launch) -> tuple[int, int]:
    """(float32 values of the partial outputs, of their log-sums): what a call's scratch holds at least."""
    rows = call.kv_heads * launch.programs * call.rows
    return rows * call.head_size, rows
