"""`uniform-mamba-metadata`: a batch of decodes needs no row-by-row classification.

Before each step the Mamba builders look for prefill rows that may run as decodes, and then for where decodes end.  If
no row is prefilling and no query is longer than the decode threshold, the answer is known: every row is a decode.
"""

import functools
from typing import Any

from specdecode_engine import toggles

ENABLED = toggles.enabled("uniform-mamba-metadata")


def counts(common: Any, decode_threshold: int) -> tuple[int, int, int, int] | None:
    """(decodes, prefills, decode tokens, prefill tokens) if the batch is uniform decode, else None.

    `common` is vLLM's CommonAttentionMetadata.  None also if `is_prefilling` (bool, one a row, on the CPU) is missing:
    without it a short prefill chunk cannot be told from a decode.  A padded prompt tail is a prefilling row: None.
    """
    if not ENABLED or common.is_prefilling is None or common.max_query_len > decode_threshold:
        return None
    if common.is_prefilling.any():
        return None
    return common.num_reqs, 0, common.num_actual_tokens, 0


@functools.cache
def _cached_offsets(end: int, device: Any, dtype: Any) -> Any:
    import torch

    return torch.arange(end, device=device, dtype=dtype)


def gather_offsets(end: int, *, device: Any, dtype: Any) -> Any:
    """torch.arange(end, device=device, dtype=dtype), kept from step to step; callers must not write to it.

    While a graph is captured it is made anew: memory of the capture's pool must not outlive it here.
    """
    import torch

    if not ENABLED or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
        return torch.arange(end, device=device, dtype=dtype)
    return _cached_offsets(end, device, dtype)
