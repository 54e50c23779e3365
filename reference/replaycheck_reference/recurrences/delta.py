"""The gated delta rule, one number at a time: the specification every other reference is pinned to.

    g   = -exp(A_log) softplus(raw)        "classic"; lower_bound sigmoid(exp(A_log) raw), or raw itself where it is given;
                                           raw = g_raw + dt_bias, or g_raw without bias; exp(A_log) is 1 without A_log
    a   = exp(g)                           one a head (Gated DeltaNet), or one a head and key channel (Kimi Delta Attention)
    beta = sigmoid(b)                      or 2 sigmoid(b) where doubled, or b itself where it is given
    k   = k_raw / ||k_raw||, q = scale q_raw / ||q_raw||      with the variant's norm; v as it comes
    d_t = beta_t (v_t - S_(t-1) diag(a_t) k_t)
    S_t = S_(t-1) diag(a_t) + d_t k_t^T
    o_t = S_t q_t

The state decays, is asked what it holds at the key, is corrected there, and is read. Yang, Kautz and Hatamizadeh, Gated Delta Networks
(2025), section 3.1; with a decay a channel: Kimi Team, Kimi Linear (2025), section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from torch import Tensor

from ..arithmetic.interface import Arithmetic, Number
from ..layer import DeltaLayer, DeltaTokens
from .rows import HeadRun, dot, numbers, of_rows, start_row

__all__ = ["Received", "beta", "log_decays", "next_row", "normed", "received", "run_head", "run_row"]


@dataclass(frozen=True, kw_only=True)
class Received(Generic[Number]):
    """What all rows of a head receive with one token. decay, k, q: [state_dim]; k and q after norm and scale."""

    decay: list[Number]
    beta: Number
    k: list[Number]
    q: list[Number]


def log_decays(arithmetic: Arithmetic[Number], layer: DeltaLayer, head: int, raw: Tensor) -> list[Number]:
    """g of every channel of head `head`, or the one of a head, from `raw` [channels]."""
    return [_log_decay(arithmetic, layer, head, channel, value) for channel, value in enumerate(raw.double().tolist())]


def _log_decay(arithmetic: Arithmetic[Number], layer: DeltaLayer, head: int, channel: int, value: float) -> Number:
    form, raw = layer.variant, arithmetic.number(value)
    if layer.dt_bias is not None:
        raw = raw + arithmetic.number(float(layer.dt_bias[head, channel] if form.channels else layer.dt_bias[head]))
    if form.gate == "given":
        return raw
    rate = arithmetic.number(1.0) if layer.A_log is None else arithmetic.exp(arithmetic.number(float(layer.A_log[head])))
    if form.gate == "classic":
        return -(rate * arithmetic.softplus(raw))
    return arithmetic.number(form.lower_bound) * arithmetic.sigmoid(rate * raw)


def beta(arithmetic: Arithmetic[Number], layer: DeltaLayer, raw: float) -> Number:
    """The step size that a head makes of `raw`."""
    number = arithmetic.number(raw)
    if layer.variant.beta == "given":
        return number
    once = arithmetic.sigmoid(number)
    return once + once if layer.variant.beta == "doubled" else once


def normed(arithmetic: Arithmetic[Number], layer: DeltaLayer, raw: Tensor) -> list[Number]:
    """A raw key or query [state_dim] divided by its norm, as the variant has it."""
    x, form = numbers(arithmetic, raw), layer.variant
    if form.norm == "off":
        return x
    squares, eps = dot(arithmetic, x, x), arithmetic.number(form.eps)
    if form.norm == "inside":
        norm = arithmetic.sqrt(squares + eps)
    elif form.norm == "outside":
        norm = arithmetic.sqrt(squares) + eps
    else:
        norm = arithmetic.clamp(arithmetic.sqrt(squares), form.eps, math.inf)
    return [value / norm for value in x]


def received(arithmetic: Arithmetic[Number], layer: DeltaLayer, tokens: DeltaTokens, t: int, *, head: int) -> Received[Number]:
    """What head `head` receives with token `t`."""
    group = head // (layer.heads // layer.groups)
    decays = [arithmetic.exp(g) for g in log_decays(arithmetic, layer, head, tokens.g[t, head].reshape(-1))]
    scale = arithmetic.number(layer.scale)
    return Received(
        decay=decays if layer.variant.channels else decays * layer.state_dim, beta=beta(arithmetic, layer, float(tokens.b[t, head])),
        k=normed(arithmetic, layer, tokens.k[t, group]), q=[scale * value for value in normed(arithmetic, layer, tokens.q[t, group])],
    )


def next_row(arithmetic: Arithmetic[Number], row: Sequence[Number], got: Received[Number], v: Number) -> list[Number]:
    """Row p of S_t from row p of S_(t-1): a S + beta (v - (a S) k) k."""
    decayed = [a * s for a, s in zip(got.decay, row, strict=True)]
    delta = got.beta * (v - dot(arithmetic, decayed, got.k))
    return [s + delta * k for s, k in zip(decayed, got.k, strict=True)]


def run_row(
    arithmetic: Arithmetic[Number], layer: DeltaLayer, state: Sequence[Number], tokens: DeltaTokens, *, head: int, row: int,
) -> tuple[list[Number], list[Number]]:
    """Outputs [tokens] and end state [state_dim] of one row of one head."""
    with arithmetic.working():
        return _run(arithmetic, state, _received(arithmetic, layer, tokens, head), numbers(arithmetic, tokens.v[:, head, row]))


def run_head(
    arithmetic: Arithmetic[Number], layer: DeltaLayer, start: Tensor | None, tokens: DeltaTokens, *, head: int,
) -> HeadRun[Number]:
    """Outputs and end state of one head. start: [heads, head_dim, state_dim], any float dtype, None is zero."""
    with arithmetic.working():
        got = _received(arithmetic, layer, tokens, head)
        return of_rows([
            _run(arithmetic, start_row(arithmetic, layer, start, head=head, row=row), got, numbers(arithmetic, tokens.v[:, head, row]))
            for row in range(layer.head_dim)
        ])


def _received(arithmetic: Arithmetic[Number], layer: DeltaLayer, tokens: DeltaTokens, head: int) -> list[Received[Number]]:
    return [received(arithmetic, layer, tokens, t, head=head) for t in range(len(tokens))]


def _run(
    arithmetic: Arithmetic[Number], state: Sequence[Number], got: Sequence[Received[Number]], v: Sequence[Number],
) -> tuple[list[Number], list[Number]]:
    outputs, now = [], list(state)
    for each, value in zip(got, v, strict=True):
        now = next_row(arithmetic, now, each, value)
        outputs.append(dot(arithmetic, now, each.q))
    return outputs, now
