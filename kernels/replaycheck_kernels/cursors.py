"""Ring cursors on the device: cursor[slot] is the number of ring rows in use."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["advance"]


@triton.jit
def advance_kernel(cursor, slots, rows, CAPACITY: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=-1).to(tl.int64)
    live = slot >= 0
    used = tl.load(cursor + slot, mask=live, other=0)
    tl.store(cursor + slot, tl.where(used == CAPACITY - 1, 0, used + 1), mask=live)


def advance(cursor: Tensor, slots: Tensor, *, capacity: int) -> None:
    """Count one committed token for every row, once a forward, after the last layer that shares `cursor`.

    cursor: int32 [pool slots]. slots: int32 or int64 [rows], distinct; a slot < 0 is a pad and advances nothing. A cursor at
    capacity - 1, where the step folded, returns to zero. One launch, no synchronisation: may be captured in a graph.
    Raises ValueError naming the argument.
    """
    if cursor.dtype != torch.int32 or cursor.dim() != 1 or cursor.stride(0) != 1:
        raise ValueError(f"cursor must be contiguous int32 [slots], got {cursor.dtype} {tuple(cursor.shape)}")
    if slots.dtype not in (torch.int32, torch.int64) or slots.dim() != 1 or (len(slots) > 1 and slots.stride(0) != 1):
        raise ValueError(f"slots must be contiguous int32 or int64 [rows], got {slots.dtype} {tuple(slots.shape)}")
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1, got {capacity}")
    rows = slots.shape[0]
    if rows:
        advance_kernel[(triton.cdiv(rows, 128),)](cursor, slots, rows, CAPACITY=capacity, BLOCK=128, num_warps=4)
