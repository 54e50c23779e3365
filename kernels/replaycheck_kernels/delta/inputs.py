"""What a launch of a delta rule is given, checked once and by name."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from ..arguments import FLOATS, check_out, check_parameter, check_row, check_slots
from .pool import DeltaPool

__all__ = ["Form", "GATES", "Inputs", "NORMS", "check"]

GATES = ("classic", "lower_bound")
NORMS = ("inside", "outside", "max", "off")


def _fp32(value: float) -> bool:
    return isfinite(value) and torch.tensor(value, dtype=torch.float32).item() == value


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a layer of a delta rule is, beside its parameters; all numbers are fp32 numbers.

    scale: queries are multiplied by it after the norm. gate: "classic", log decay = -exp(A_log) softplus(raw), or "lower_bound",
    lower_bound sigmoid(exp(A_log) raw). doubled: beta is 2 sigmoid(b), not sigmoid(b). norm: what keys and queries are divided by:
    "inside", sqrt(sum x^2 + eps); "outside", sqrt(sum x^2) + eps; "max", the larger of sqrt(sum x^2) and eps; "off", nothing.
    Raises ValueError naming the field.
    """

    scale: float
    gate: str = "classic"
    lower_bound: float = -5.0
    doubled: bool = False
    norm: str = "inside"
    eps: float = 9.999999974752427e-07

    def __post_init__(self) -> None:
        for name, known in (("gate", GATES), ("norm", NORMS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name in ("scale", "lower_bound", "eps"):
            if not _fp32(getattr(self, name)):
                raise ValueError(f"{name} must be a finite fp32 number, got {getattr(self, name)!r}")
        if self.lower_bound >= 0:
            raise ValueError(f"lower_bound must be below 0, got {self.lower_bound!r}")
        if self.eps < 0:
            raise ValueError(f"eps must be at least 0, got {self.eps!r}")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """One token a row, and the parameters of the layer.

    q, k: [rows, groups, state_dim], before norm and scale; v: [rows, heads, head_dim]; one activation dtype for these. g: [rows, heads], or
    [rows, heads, state_dim] where every key channel has its own decay, before bias and gate; b: [rows, heads], before the sigmoid. Rows may
    lie anywhere (slices of one packed tensor); inside a row tensors are contiguous.
    A_log: contiguous fp32 [heads], None for zeros; dt_bias: contiguous fp32, of the shape of g without rows, or None.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    b: Tensor
    A_log: Tensor | None
    dt_bias: Tensor | None


def check(pool: DeltaPool, slots: Tensor, inputs: Inputs, out: Tensor | None) -> Tensor:
    """Hold every argument of a launch to its contract; returns `out`, allocated like v where it is None.

    Raises ValueError naming the argument and its value.
    """
    geometry, device = pool.geometry, pool.state.device
    rows = check_slots(slots, device)
    wide, narrow = (rows, geometry.heads, geometry.head_dim), (rows, geometry.groups, geometry.state_dim)
    check_row("v", inputs.v, wide, FLOATS, device)
    check_row("q", inputs.q, narrow, (inputs.v.dtype,), device)
    check_row("k", inputs.k, narrow, (inputs.v.dtype,), device)
    check_row("g", inputs.g, (rows, *pool.gate_shape), FLOATS, device)
    check_row("b", inputs.b, (rows, geometry.heads), FLOATS, device)
    check_parameter("A_log", inputs.A_log, [(geometry.heads,)], device)
    check_parameter("dt_bias", inputs.dt_bias, [pool.gate_shape], device)
    return check_out(out, wide, inputs.v.dtype, device)
