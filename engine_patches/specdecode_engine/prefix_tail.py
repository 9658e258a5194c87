"""`prefix-cache-tail`: which drafters need the last matched block of a prefix-cache hit dropped.

EAGLE-like drafters build the KV of a position from the next token too, so the KV of a cached block's last position is
not yet right when the block is full: the block is dropped and computed again.  DFlash and DSpark build it from the
target's hidden state alone, so their cached tail is good.

The release asks one predicate, `SpeculativeConfig.use_eagle_block_drop`, everywhere; the patch narrows that predicate.
Who follows it, decided one by one:

* scheduler and KV-cache manager (last-block drop, align-mode backoff, prompt-tail boundary): follow, that is the point.
* KV-cache group annotation: follows; a group marked as the drafter's only means "drop here".
* CPU offload (simple and connector) and the Mooncake store: follow; they replay the same lookup over their own blocks,
  and must agree with the scheduler on where a hit ends.
* KDA checkpoint positions: follow; they mirror the scheduler's split.
* NIXL's compatibility factors, LMCache's layer count, fast prefill, chunked local attention: ask `use_eagle` (does it
  draft from hidden states), which stays as it is.
* `num_prefill_lookahead` also hangs on `use_eagle` and stays: the drafter still reads one position ahead.

On 0.30.0 the patch also mends the release: after a hit it looks for a Mamba layer's state in a column counted in the
smallest block of all KV groups, the drafter's for example, rather than in Mamba's own (vllm#55600; 0.33.0 has it
right).  Without the longer hit the answer may be wrong too, so that hunk follows no switch.
"""

from specdecode_engine import toggles

TAIL_IS_GOOD = frozenset({"dflash", "dspark"})


def needs_drop(method: str | None, *, enabled: bool) -> bool:
    """Whether a hidden-state drafter of this method needs the drop.

    Fail closed: a method this module does not know keeps it.
    """
    return not (enabled and method in TAIL_IS_GOOD)


def drops_tail(method: str | None) -> bool:
    """`needs_drop` under this process's switches: what the patched predicate asks."""
    return needs_drop(method, enabled=toggles.enabled("prefix-cache-tail"))
