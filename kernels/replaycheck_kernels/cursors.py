"""Ring cursors on the device: cursor[slot] is the number of ring rows in use, origin[slot] the row of the oldest where a ring turns."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .rows import MAX_WINDOW, check_rows, span

__all__ = ["advance", "commit", "folds", "reset"]

_BLOCK = 128


@triton.jit
def advance_kernel(cursor, slots, rows, CAPACITY: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=-1).to(tl.int64)
    live = slot >= 0
    used = tl.load(cursor + slot, mask=live, other=0)
    tl.store(cursor + slot, tl.where(used == CAPACITY - 1, 0, used + 1), mask=live)


@triton.jit
def folds(used, length, CAPACITY: tl.constexpr, WINDOW: tl.constexpr):
    """Whether a row of `length` tokens over `used` committed ones folds these first: where a whole window would not fit behind them.

    How long the row is does not count, so that no output depends on how many drafts follow it; a row of none never folds.
    """
    return (length > 0) & (used + WINDOW > CAPACITY)


@triton.jit
def commit_kernel(cursor, origin, slots, starts, counts, rows, CAPACITY: tl.constexpr, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = row < rows
    slot = tl.load(slots + row, mask=here, other=-1).to(tl.int64)
    live = slot >= 0
    _, length = span(starts, tl.where(here, row, 0), WINDOW)
    count = tl.load(counts + row, mask=live, other=0)
    count = tl.where(count < 0, 0, tl.where(count > length, length, count))
    used = tl.load(cursor + slot, mask=live, other=0)
    oldest = tl.load(origin + slot, mask=live, other=0)
    folded = folds(used, length, CAPACITY, WINDOW)
    tl.store(cursor + slot, tl.where(folded, count, used + count), mask=live)
    tl.store(origin + slot, tl.where(folded, (oldest + used) % (CAPACITY + WINDOW), oldest), mask=live)


@triton.jit
def reset_kernel(cursor, origin, slots, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + row, mask=row < rows, other=-1).to(tl.int64)
    tl.store(cursor + slot, 0, mask=slot >= 0)
    tl.store(origin + slot, 0, mask=slot >= 0)


def advance(cursor: Tensor, slots: Tensor, *, capacity: int) -> None:
    """Count one committed token for every row, once a forward, after the last layer that shares `cursor`.

    cursor: int32 [pool slots]. slots: int32 or int64 [rows], distinct; a slot < 0 is a pad and advances nothing. A cursor at
    capacity - 1, where the step folded, returns to zero. One launch, no synchronisation: may be captured in a graph.
    Raises ValueError naming the argument.
    """
    _check_cursor("cursor", cursor)
    _check_slots(slots)
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1, got {capacity}")
    rows = slots.shape[0]
    if rows:
        advance_kernel[(triton.cdiv(rows, _BLOCK),)](cursor, slots, rows, CAPACITY=capacity, BLOCK=_BLOCK, num_warps=4)


def commit(cursor: Tensor, origin: Tensor, slots: Tensor, starts: Tensor, counts: Tensor, *, capacity: int, window: int) -> None:
    """Keep the first counts[row] tokens of every row of a speculative forward, once, after the last layer that shares the cursors.

    cursor, origin: int32 [pool slots], of rings with capacity + window rows. slots, starts: as the forward had them. counts: int32
    [rows]; 0 discards the whole row, and what is not in 0..length is taken for the nearer end, so that no cursor leaves 0..capacity.
    A row that folded (its cursor + window > capacity) leaves its origin at its own first token, whatever it keeps: the fold took the
    committed tokens and no draft. Pads and empty rows move nothing. One launch, no synchronisation: may be captured
    in a graph. Call it exactly once a forward. Raises ValueError naming the argument.
    """
    _check_cursor("cursor", cursor)
    _check_cursor("origin", origin)
    check_rows(slots, starts)
    if counts.dtype != torch.int32 or tuple(counts.shape) != tuple(slots.shape) or (len(counts) > 1 and counts.stride(0) != 1):
        raise ValueError(f"counts must be contiguous int32 [{len(slots)}], got {counts.dtype} {list(counts.shape)}")
    if not 1 <= window <= min(capacity, MAX_WINDOW):
        raise ValueError(f"window must be from 1 to {MAX_WINDOW} and at most capacity = {capacity}, got {window}")
    rows = slots.shape[0]
    if rows:
        commit_kernel[(triton.cdiv(rows, _BLOCK),)](
            cursor, origin, slots, starts, counts, rows, CAPACITY=capacity, WINDOW=window, BLOCK=_BLOCK, num_warps=4
        )


def reset(cursor: Tensor, origin: Tensor, slots: Tensor) -> None:
    """Start the slots' rings empty, as a slot that is admitted must. Pads (slot < 0) reset nothing. One launch.

    Raises ValueError naming the argument.
    """
    _check_cursor("cursor", cursor)
    _check_cursor("origin", origin)
    _check_slots(slots)
    rows = slots.shape[0]
    if rows:
        reset_kernel[(triton.cdiv(rows, _BLOCK),)](cursor, origin, slots, rows, BLOCK=_BLOCK, num_warps=4)


def _check_cursor(name: str, cursor: Tensor) -> None:
    if cursor.dtype != torch.int32 or cursor.dim() != 1 or cursor.stride(0) != 1:
        raise ValueError(f"{name} must be contiguous int32 [slots], got {cursor.dtype} {tuple(cursor.shape)}")


def _check_slots(slots: Tensor) -> None:
    if slots.dtype not in (torch.int32, torch.int64) or slots.dim() != 1 or (len(slots) > 1 and slots.stride(0) != 1):
        raise ValueError(f"slots must be contiguous int32 or int64 [rows], got {slots.dtype} {tuple(slots.shape)}")
