"""A token of a delta rule as device functions: from what a layer hands over to log decays, beta, key and query, in fp32."""

from __future__ import annotations

import triton
import triton.language as tl

from ..masks import load
from ..numerics import sigmoid, softplus

__all__ = ["beta", "log_decays", "normed"]


@triton.jit
def gate(raw, bias, rate, GATE: tl.constexpr, LOWER: tl.constexpr):
    """Log decay in fp32. bias: fp32 like raw, or None. rate: exp(A_log)."""
    value = raw.to(tl.float32)
    if bias is not None:
        value += bias
    if GATE == "classic":
        value = -rate * softplus(value)
    else:
        value = LOWER * sigmoid(rate * value)
    return value


@triton.jit
def log_decays(g, A_log, dt_bias, head, CHANNELS: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr, GATE: tl.constexpr,
               LOWER: tl.constexpr):
    """Log decays of a head's channels, [COLUMNS]; of the head, [1], where not CHANNELS. g: pointer to the first of the row.

    Channels past N have no meaning: keys and states are zero there.
    """
    rate = tl.exp(tl.load(A_log + head)) if A_log is not None else 1.0
    WIDTH: tl.constexpr = COLUMNS if CHANNELS else 1
    EACH: tl.constexpr = N if CHANNELS else 1
    n = tl.arange(0, WIDTH)
    raw = load(g + head * EACH + n, n < EACH, WIDTH == EACH)
    bias = load(dt_bias + head * EACH + n, n < EACH, WIDTH == EACH) if dt_bias is not None else None
    return gate(raw, bias, rate, GATE, LOWER)


@triton.jit
def beta(b, DOUBLED: tl.constexpr):
    """sigmoid(b), or twice that."""
    share = sigmoid(b.to(tl.float32))
    if DOUBLED:
        share = 2.0 * share
    return share


@triton.jit
def normed(x, NORM: tl.constexpr, EPS: tl.constexpr):
    """The vector x in fp32, divided by its norm."""
    x = x.to(tl.float32)
    if NORM != "off":
        squares = tl.sum(x * x, 0)
        if NORM == "inside":
            norm = tl.sqrt_rn(squares + EPS)
        elif NORM == "outside":
            norm = tl.sqrt_rn(squares) + EPS
        else:
            root = tl.sqrt_rn(squares)
            norm = tl.where(root > EPS, root, EPS)
        x = tl.div_rn(x, norm)
    return x
