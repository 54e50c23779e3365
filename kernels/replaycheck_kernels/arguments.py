"""What any launch is given, checked once and by name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["FLOATS", "check_out", "check_parameter", "check_row", "check_slots"]

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def check_slots(slots: Tensor, device: torch.device) -> int:
    """How many rows there are. Raises ValueError where slots are not contiguous int32 or int64 [rows] on the device of the pool."""
    rows = slots.shape[0] if slots.dim() == 1 else -1
    if slots.dtype not in (torch.int32, torch.int64) or rows < 0 or (rows > 1 and slots.stride(0) != 1):
        raise ValueError(f"slots must be contiguous int32 or int64 [rows], got {slots.dtype} {list(slots.shape)}")
    if slots.device != device:
        raise ValueError(f"slots must be on {device} as the pool is, got {slots.device}")
    return rows


def check_row(name: str, value: Tensor, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...], device: torch.device) -> None:
    """Raises ValueError where a tensor of one thing a row has another shape, dtype or device, or is not contiguous inside a row."""
    if tuple(value.shape) != shape:
        raise ValueError(f"{name} must be {list(shape)}, got {list(value.shape)}")
    if value.dtype not in dtypes:
        raise ValueError(f"{name} must be {' or '.join(str(d) for d in dtypes)}, got {value.dtype}")
    if value.device != device:
        raise ValueError(f"{name} must be on {device} as the pool is, got {value.device}")
    dense = 1
    for axis in range(len(shape) - 1, 0, -1):
        if shape[axis] > 1 and value.stride(axis) != dense:
            raise ValueError(f"{name} must be contiguous inside a row, got strides {value.stride()} for {list(shape)}")
        dense *= shape[axis]


def check_parameter(name: str, value: Tensor | None, shapes: Sequence[tuple[int, ...]], device: torch.device) -> None:
    """Raises ValueError where a parameter that is there is not contiguous fp32 of one of these shapes on the device of the pool."""
    if value is None:
        return
    if value.dtype != torch.float32 or tuple(value.shape) not in shapes or not value.is_contiguous():
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"{name} must be contiguous float32 {wanted}, got {value.dtype} {list(value.shape)}")
    if value.device != device:
        raise ValueError(f"{name} must be on {device} as the pool is, got {value.device}")


def check_out(out: Tensor | None, shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Where outputs go: `out`, allocated in `dtype` where it is None. Raises ValueError where it does not fit or its rows overlap."""
    rows, heads, head_dim = shape
    if out is None:
        return torch.empty(shape, dtype=dtype, device=device)
    check_row("out", out, shape, FLOATS, device)
    if rows > 1 and abs(out.stride(0)) < heads * head_dim:
        raise ValueError(f"rows of out must not overlap, got row stride {out.stride(0)} for rows of {heads * head_dim} elements")
    return out
