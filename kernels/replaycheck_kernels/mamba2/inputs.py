"""What a Mamba-2 launch is given, checked once and by name."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..pool import Geometry, Pool

__all__ = ["Inputs", "check", "limits"]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One token a row, or the packed tokens of rows of several, and the parameters of the layer.

    x, z: [rows, heads, head_dim]; dt: [rows, heads], before bias and softplus; B, C: [rows, groups, state_dim]; one activation dtype
    for x, B, C and z. Rows may lie anywhere (slices of one packed tensor); inside a row tensors are contiguous.
    A, dt_bias, D: contiguous fp32 [heads], D also [heads, head_dim]; dt_bias, D and z may be None.
    """

    x: Tensor
    dt: Tensor
    B: Tensor
    C: Tensor
    A: Tensor
    dt_bias: Tensor | None
    D: Tensor | None
    z: Tensor | None


def limits(given: tuple[float, float] | None) -> tuple[float, float] | tuple[None, None]:
    """The limits of dt, or None twice. Raises ValueError where they are not fp32 numbers with 0 <= low <= high."""
    if given is None:
        return None, None
    low, high = given
    rounded = torch.tensor([low, high], dtype=torch.float32).tolist()
    if not 0 <= low <= high or rounded != [low, high]:
        raise ValueError(f"dt_limits must be fp32 numbers with 0 <= low <= high, got {given}")
    return low, high


def _row(name: str, value: Tensor, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...], device: torch.device) -> None:
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


def check(pool: Pool, slots: Tensor, inputs: Inputs, out: Tensor | None, activation: torch.dtype | None = None,
          tokens: int | None = None) -> Tensor:
    """Hold every argument of a launch to its contract; returns `out`, allocated like x where it is None.

    activation: the dtype x must have (that of the ring), None for any. tokens: how many there are, None for one a row.
    Raises ValueError naming the argument and its value.
    """
    g: Geometry = pool.geometry
    rows, device = slots.shape[0] if slots.dim() == 1 else -1, pool.state.device
    if slots.dtype not in (torch.int32, torch.int64) or rows < 0 or (rows > 1 and slots.stride(0) != 1):
        raise ValueError(f"slots must be contiguous int32 or int64 [rows], got {slots.dtype} {list(slots.shape)}")
    if slots.device != device:
        raise ValueError(f"slots must be on {device} as the pool is, got {slots.device}")
    rows = rows if tokens is None else tokens
    wide, narrow = (rows, g.heads, g.head_dim), (rows, g.groups, g.state_dim)
    _row("x", inputs.x, wide, _FLOATS if activation is None else (activation,), device)
    same = (inputs.x.dtype,)
    _row("dt", inputs.dt, (rows, g.heads), _FLOATS, device)
    _row("B", inputs.B, narrow, same, device)
    _row("C", inputs.C, narrow, same, device)
    if inputs.z is not None:
        _row("z", inputs.z, wide, same, device)
    for name in ("A", "dt_bias", "D"):
        value = getattr(inputs, name)
        shapes = [(g.heads,), (g.heads, g.head_dim)] if name == "D" else [(g.heads,)]
        if value is not None and (value.dtype != torch.float32 or tuple(value.shape) not in shapes or not value.is_contiguous()):
            wanted = " or ".join(str(list(shape)) for shape in shapes)
            raise ValueError(f"{name} must be contiguous float32 {wanted}, got {value.dtype} {list(value.shape)}")
        if value is not None and value.device != device:
            raise ValueError(f"{name} must be on {device} as the pool is, got {value.device}")
    if out is None:
        return torch.empty(wide, dtype=inputs.x.dtype, device=device)
    _row("out", out, wide, _FLOATS, device)
    if rows > 1 and abs(out.stride(0)) < g.heads * g.head_dim:
        raise ValueError(f"rows of out must not overlap, got row stride {out.stride(0)} for rows of {g.heads * g.head_dim} elements")
    return out
