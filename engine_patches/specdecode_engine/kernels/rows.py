"""Which rows of a draft step are real, and which request each belongs to, refreshed inside a CUDA graph."""

import torch
from vllm.triton_utils import tl, triton
from vllm.v1.attention.ops.metadata import _token_request

BLOCK = 256


@triton.jit(do_not_specialize=["num_reqs", "num_tokens", "num_slots"])
def _refresh_rows_kernel(
    slot_mapping_ptr,  # [num_slots] int64, negative: no slot
    query_start_loc_ptr,  # [num_reqs + 1] int32
    is_valid_ptr,  # [num_slots] bool, out
    token_to_req_ptr,  # [num_tokens] int32, out
    num_reqs,
    num_tokens,
    num_slots,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slot_mapping_ptr + token, mask=token < num_slots, other=-1)
    tl.store(is_valid_ptr + token, slot >= 0, mask=token < num_slots)
    # Rows after the last request are graph padding: request 0, as the eager build leaves them.
    mapped = tl.load(query_start_loc_ptr + num_reqs)
    req = _token_request(query_start_loc_ptr, token, num_reqs)
    tl.store(token_to_req_ptr + token, tl.where(token < mapped, req, 0), mask=token < num_tokens)


def refresh(
    *,
    slot_mapping: torch.Tensor,
    query_start_loc: torch.Tensor,
    is_valid_token: torch.Tensor,
    token_to_req_indices: torch.Tensor,
) -> None:
    """Write `is_valid_token` (bool) and `token_to_req_indices` (int32) from the other two; no host value is read."""
    num_slots, num_tokens = slot_mapping.shape[0], token_to_req_indices.shape[0]
    _refresh_rows_kernel[(triton.cdiv(max(num_slots, num_tokens), BLOCK),)](
        slot_mapping,
        query_start_loc,
        is_valid_token,
        token_to_req_indices,
        query_start_loc.shape[0] - 1,
        num_tokens,
        num_slots,
        BLOCK=BLOCK,
    )
