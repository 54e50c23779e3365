"""What a Mamba-2 launch is given, checked once and by name."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..arguments import FLOATS, check_out, check_parameter, check_row, check_slots
from ..pool import Geometry, Pool

__all__ = ["Inputs", "check", "limits"]


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


def check(pool: Pool, slots: Tensor, inputs: Inputs, out: Tensor | None, activation: torch.dtype | None = None,
          tokens: int | None = None) -> Tensor:
    """Hold every argument of a launch to its contract; returns `out`, allocated like x where it is None.

    activation: the dtype x must have (that of the ring), None for any. tokens: how many there are, None for one a row.
    Raises ValueError naming the argument and its value.
    """
    g: Geometry = pool.geometry
    device = pool.state.device
    rows = check_slots(slots, device)
    rows = rows if tokens is None else tokens
    wide, narrow = (rows, g.heads, g.head_dim), (rows, g.groups, g.state_dim)
    check_row("x", inputs.x, wide, FLOATS if activation is None else (activation,), device)
    same = (inputs.x.dtype,)
    check_row("dt", inputs.dt, (rows, g.heads), FLOATS, device)
    check_row("B", inputs.B, narrow, same, device)
    check_row("C", inputs.C, narrow, same, device)
    if inputs.z is not None:
        check_row("z", inputs.z, wide, same, device)
    each = (g.heads,)
    for name, value, shapes in (("A", inputs.A, [each]), ("dt_bias", inputs.dt_bias, [each]), ("D", inputs.D, [each, (*each, g.head_dim)])):
        check_parameter(name, value, shapes, device)
    return check_out(out, wide, inputs.x.dtype, device)
