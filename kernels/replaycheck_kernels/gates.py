"""The gates of Mamba-2 as device functions: from what a layer hands over to step size and output gate, in fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from .numerics import sigmoid, softplus

__all__ = ["gated", "step_size"]


@triton.jit
def step_size(raw, bias, SOFTPLUS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    """dt in fp32: softplus(raw + bias), or raw + bias where SOFTPLUS is False, held to [LOW, HIGH] unless these are None.

    bias: fp32 like raw, or None. LOW, HIGH: fp32 numbers, exactly.
    """
    dt = raw.to(tl.float32)
    if bias is not None:
        dt = dt + bias
    if SOFTPLUS:
        dt = softplus(dt)
    if LOW is not None:
        dt = tl.where(dt < LOW, LOW, tl.where(dt > HIGH, HIGH, dt))
    return dt


@triton.jit
def gated(y, z):
    """y * z * sigmoid(z) in fp32."""
    z = z.to(tl.float32)
    return y * (z * sigmoid(z))
