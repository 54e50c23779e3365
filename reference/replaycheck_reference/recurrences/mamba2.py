"""Mamba-2, one number at a time: the specification every other reference is pinned to.

    dt  = softplus(dt_raw + bias)          or dt_raw + bias without softplus, dt_raw without bias; then held to dt_limits, where given
    A   = decay                            or -exp(decay) where the layer is handed A_log
    a   = exp(A dt)
    S_t = a S_(t-1) + dt x_t B_t^T         for every row p and column n of a head
    y_t = S_t C_t + D x_t                  and times z sigmoid(z) where gated; D is a number a head or, with skip_rows, a number a row

Dao and Gu, Transformers are SSMs (2024), section 6 (the recurrent form with scalar decay a head).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from torch import Tensor

from ..arithmetic.interface import Arithmetic, Number
from ..layer import Mamba2Layer, Mamba2Tokens
from .rows import HeadRun, dot, numbers, of_rows, start_row

__all__ = ["Gate", "gate", "next_row", "output", "run_head", "run_row"]


@dataclass(frozen=True, kw_only=True)
class Gate(Generic[Number]):
    """Step size dt and decay a = exp(A dt) of one token of one head."""

    dt: Number
    decay: Number


def gate(arithmetic: Arithmetic[Number], layer: Mamba2Layer, head: int, dt_raw: float) -> Gate[Number]:
    """Step size and decay that head `head` makes of `dt_raw`."""
    raw = arithmetic.number(dt_raw)
    if layer.dt_bias is not None:
        raw = raw + arithmetic.number(float(layer.dt_bias[head]))
    dt = arithmetic.softplus(raw) if layer.variant.softplus else raw
    if layer.variant.dt_limits is not None:
        dt = arithmetic.clamp(dt, *layer.variant.dt_limits)
    parameter = arithmetic.number(float(layer.decay[head]))
    A = -arithmetic.exp(parameter) if layer.variant.decay_parameter == "A_log" else parameter
    return Gate(dt=dt, decay=arithmetic.exp(A * dt))


def next_row(row: Sequence[Number], gate: Gate[Number], x: Number, B: Sequence[Number]) -> list[Number]:
    """Row p of S_t from row p of S_(t-1): a S + dt x B."""
    return [gate.decay * s + gate.dt * x * b for s, b in zip(row, B, strict=True)]


def output(
    arithmetic: Arithmetic[Number], row: Sequence[Number], C: Sequence[Number], x: Number, *, D: Number | None, z: Number | None,
) -> Number:
    """Element p of y_t from row p of S_t; D and z as the variant has them."""
    y = dot(arithmetic, row, C)
    if D is not None:
        y = y + D * x
    return y if z is None else y * (z * arithmetic.sigmoid(z))


def run_row(
    arithmetic: Arithmetic[Number], layer: Mamba2Layer, state: Sequence[Number], tokens: Mamba2Tokens, *, head: int, row: int,
) -> tuple[list[Number], list[Number]]:
    """Outputs [tokens] and end state [state_dim] of one row of one head."""
    number = arithmetic.number
    group = head // (layer.heads // layer.groups)
    D = None if layer.D is None else number(float(layer.D[head, row] if layer.variant.skip_rows else layer.D[head]))
    outputs, now = [], list(state)
    with arithmetic.working():
        for t in range(len(tokens)):
            x = number(float(tokens.x[t, head, row]))
            z = None if tokens.z is None else number(float(tokens.z[t, head, row]))
            now = next_row(now, gate(arithmetic, layer, head, float(tokens.dt[t, head])), x, numbers(arithmetic, tokens.B[t, group]))
            outputs.append(output(arithmetic, now, numbers(arithmetic, tokens.C[t, group]), x, D=D, z=z))
    return outputs, now


def run_head(
    arithmetic: Arithmetic[Number], layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, *, head: int,
) -> HeadRun[Number]:
    """Outputs and end state of one head. start: [heads, head_dim, state_dim], any float dtype, None is zero."""
    starts = [start_row(arithmetic, layer, start, head=head, row=row) for row in range(layer.head_dim)]
    return of_rows([run_row(arithmetic, layer, starts[row], tokens, head=head, row=row) for row in range(layer.head_dim)])
