"""Where the Mamba states of each row lie, and how many tokens it accepted, for all KV groups in one launch."""

import torch
from vllm.triton_utils import tl, triton


@triton.jit(do_not_specialize=["num_reqs"])
def _refresh_states_kernel(
    pointers_ptr,  # [3, groups] int64: addresses of each group's
    # block table, [rows, blocks] int32; state indices, [>= rows, SLOTS] int32, out; accepted, [>= rows] int32, out
    table_stride: tl.int64,
    seq_lens_ptr,  # [rows] int32, 0 in graph padding
    requests_ptr,  # [num_reqs] int64: the request of each row
    accepted_ptr,  # [requests] int32
    num_reqs,
    BLOCK_SIZE: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK_SLOTS: tl.constexpr,
):
    group, groups = tl.program_id(0), tl.num_programs(0)
    row = tl.program_id(1)
    slot = tl.arange(0, BLOCK_SLOTS)
    table = tl.load(pointers_ptr + group).to(tl.pointer_type(tl.int32))
    states = tl.load(pointers_ptr + groups + group).to(tl.pointer_type(tl.int32))
    counts = tl.load(pointers_ptr + 2 * groups + group).to(tl.pointer_type(tl.int32))

    # The last blocks of the row: the running state's, then one a draft token.
    first = tl.maximum((tl.load(seq_lens_ptr + row) - 1) // BLOCK_SIZE, 0)
    index = tl.load(table + row * table_stride + first + slot, mask=slot < SLOTS, other=0)
    tl.store(states + row * SLOTS + slot, index, mask=slot < SLOTS)

    # Graph padding has no request and counts as one accepted token.
    real = row < num_reqs
    request = tl.load(requests_ptr + row, mask=real, other=0)
    emitted = tl.load(accepted_ptr + request, mask=real, other=1)
    tl.store(counts + row, emitted)


def refresh(
    pointers: torch.Tensor,
    *,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    requests: torch.Tensor,
    accepted: torch.Tensor,
    block_size: int,
    slots: int,
) -> None:
    """Write the rows of all groups' buffers; no host value of the batch is read but its size.

    Args:
        pointers: [3, groups] int64: addresses of block tables, state indices, accepted tokens.
        block_table: One of the tables, for their shape: [rows, blocks] int32, the blocks of a row side by side.
        seq_lens: [rows] int32, 0 in graph padding.
        requests: [num_reqs] int64: the request of each row that is not padding.
        accepted: [requests] int32: tokens that its last draft emitted.
        block_size: Tokens of a Mamba block.
        slots: State indices of a row: one, and one a draft token.
    """
    _refresh_states_kernel[(pointers.shape[1], block_table.shape[0])](
        pointers,
        block_table.stride(0),
        seq_lens,
        requests,
        accepted,
        requests.shape[0],
        BLOCK_SIZE=block_size,
        SLOTS=slots,
        BLOCK_SLOTS=triton.next_power_of_2(slots),
        num_warps=1,
    )
