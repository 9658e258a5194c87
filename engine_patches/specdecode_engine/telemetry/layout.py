"""The one description of every metric: names, labels, buckets, and the cells that a worker counts in."""

from dataclasses import dataclass

PREFIX = "specdecode_"

BOUNDS = tuple(5e-6 * 2.5**power for power in range(14))
"""Upper bounds in seconds of every span's buckets, on every device: 5 us to 0.75 s, a factor of 2.5 each."""

LENGTH_BOUNDS = tuple(float(length) for length in range(1, 10))
"""Acceptance lengths: 1 (the bonus token alone) to 9 (eight drafted tokens accepted), always all of them."""

MAX_POSITIONS = 8
"""Drafted positions; `numSpeculativeTokens` goes no further."""

BATCHES = tuple(2**power for power in range(8))
"""Buckets of running requests: 1, 2, 4 ... 128; a larger batch counts in the last."""

DECODE, MIXED = "decode", "mixed"
CELLS = (*((DECODE, str(batch)) for batch in BATCHES), (MIXED, "all"))
"""(step, batch) labels of a span.  A step that also prefills is `mixed`: nothing is judged by it, so one cell does."""


@dataclass(frozen=True)
class Span:
    """A histogram of seconds."""

    name: str
    """Without prefix and unit."""
    labelled: bool
    """By step and batch; the probe's are not."""
    text: str

    @property
    def metric(self) -> str:
        return f"{PREFIX}{self.name}_seconds"


SPANS = (
    Span("propose_host", True, "Host time of one propose call."),
    Span("drafter_gpu", True, "The drafter's span on the device: graph replay, or forward."),
    Span("propose_gpu", True, "Propose from its first to its last kernel on the stream."),
    Span("draft_rebuild_host", True, "Host time of the draft metadata rebuild; 0 if it was skipped."),
    Span("input_prep_host", True, "Host time of the target's input preparation."),
    Span("target_forward_gpu", True, "The target's forward on the device."),
    Span("probe_host", False, "A fixed short workload on the host: the control for the image."),
    Span("probe_device", False, "A fixed short workload on the device: the control for the image."),
)
SPAN_INDEX = {span.name: index for index, span in enumerate(SPANS)}

DROPPED = ("ring_full", "late", "unpaired", "foreign_layout")
"""Why a sample is missing: no free event pair; not done when its turn to be read had passed; begun and never ended;
from a worker whose layout is not this process's."""

ACCEPTANCE = f"{PREFIX}acceptance_length"
DRAFTS = f"{PREFIX}drafts"
DRAFT_TOKENS = f"{PREFIX}draft_tokens"
ACCEPTED = f"{PREFIX}accepted_tokens"
FINISHED = f"{PREFIX}requests_finished"
SAMPLES_DROPPED = f"{PREFIX}samples_dropped"
OPTIMIZATION_INFO = f"{PREFIX}optimization_info"
ENGINE_INFO = f"{PREFIX}engine_info"
STARTED = f"{PREFIX}start_time_seconds"

COMMON_LABELS = ("model_name", "engine")


def cell(running: int, *, mixed: bool) -> int:
    """Index in CELLS for a step of `running` requests."""
    if mixed:
        return len(CELLS) - 1
    return min(max(running - 1, 0).bit_length(), len(BATCHES) - 1)


def series_of_one_engine(optimizations: int) -> int:
    """Time series that one engine exports, each bucket, sum and count one."""
    per_span = len(BOUNDS) + 1 + 2
    spans = sum(len(CELLS) if span.labelled else 1 for span in SPANS) * per_span
    lengths = len(LENGTH_BOUNDS) + 1 + 2
    counters = 3 + MAX_POSITIONS + len(DROPPED)
    return spans + lengths + counters + optimizations + 2
