"""Which worker of an engine takes samples: the one whose output the engine core reads.

That is the first tensor-parallel rank of the last pipeline stage.  Drafts are made there, and a rank that is slower
than the others shows there too, as the time in which it is waited for.  Samples of any other worker would reach nobody,
so none are taken.  Data-parallel ranks are engines of their own: the label `engine` tells them apart.
"""

import functools
from typing import Any


def reporter(parallel: Any) -> int:
    """Rank of that worker within its engine, from the engine's parallel configuration."""
    return int(
        parallel.world_size - parallel.tensor_parallel_size * parallel.prefill_context_parallel_size,
    )


@functools.cache
def reports() -> bool:
    """Whether this process is that worker.  Asked once its groups are there."""
    from vllm.distributed import parallel_state as groups

    first = groups.get_tp_group().is_first_rank and groups.get_pcp_group().is_first_rank
    return bool(first and groups.get_pp_group().is_last_rank)
