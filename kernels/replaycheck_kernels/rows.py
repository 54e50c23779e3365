"""Rows of several tokens: tokens of one forward lie packed, row after row, and where each row starts is read on the device."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["MAX_WINDOW", "check_rows", "span"]

#: The most tokens that a row of a speculative forward has: the certain one and the drafts.
MAX_WINDOW = 16


@triton.jit
def span(starts, row, WINDOW: tl.constexpr):
    """First token and number of tokens of a row. A row has at most WINDOW; what lies past them is not looked at."""
    first = tl.load(starts + row)
    length = tl.load(starts + row + 1) - first
    return first, tl.where(length < 0, 0, tl.where(length > WINDOW, WINDOW, length))


def check_rows(slots: Tensor, starts: Tensor) -> None:
    """Raises ValueError where slots are not int32 or int64 [rows] or starts not int32 [rows + 1], contiguous, on one device."""
    if slots.dtype not in (torch.int32, torch.int64) or slots.dim() != 1 or (len(slots) > 1 and slots.stride(0) != 1):
        raise ValueError(f"slots must be contiguous int32 or int64 [rows], got {slots.dtype} {list(slots.shape)}")
    if starts.dtype != torch.int32 or tuple(starts.shape) != (len(slots) + 1,) or (len(starts) > 1 and starts.stride(0) != 1):
        raise ValueError(f"starts must be contiguous int32 [{len(slots) + 1}], one more than rows, got {starts.dtype} {list(starts.shape)}")
    if starts.device != slots.device:
        raise ValueError(f"starts must be on {slots.device} as slots are, got {starts.device}")
