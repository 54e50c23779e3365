"""How far a kernel's state and outputs lie from the recurrence in float64, through many folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .mamba2_sets import Inputs, Sets, softplus_float64

__all__ = ["Residual", "residual"]


@dataclass(frozen=True, kw_only=True)
class Residual:
    """Relative norms of errors, worst over the heads of all rows.

    state_local: the stored state against float64 restarted from the kernel's own stored state at each publication (with 16-bit state
    this holds the rounding of the store); state_global: against the exact trajectory, at the last publication. output: restarted too.
    unlike_nearest: share of stored numbers unlike the correctly rounded exact state.
    """

    tokens: int
    state_local: float
    state_global: float
    output: float
    unlike_nearest: float


def _advance(sets: Sets, S: Tensor, token: Inputs) -> tuple[Tensor, Tensor]:
    """One token of the recurrence for all rows in float64: state [rows, heads, head_dim, state_dim] and output."""
    repeat = sets.geometry.heads // sets.geometry.groups
    dt = softplus_float64(token.dt.double() + sets.dt_bias.double())
    x = token.x.double()
    B, C = (t.double().repeat_interleave(repeat, 1) for t in (token.B, token.C))
    S = S * torch.exp(dt * sets.A.double())[..., None, None] + (dt[..., None] * x)[..., None] * B[:, :, None]
    return S, torch.einsum("rhpn,rhn->rhp", S, C) + sets.D.double()[None, :, None] * x


def _worst(got: Tensor, exact: Tensor) -> float:
    rows, heads = got.shape[:2]
    error = (got - exact).reshape(rows, heads, -1).norm(dim=-1) / exact.reshape(rows, heads, -1).norm(dim=-1)
    return float(error.max())


def residual(sets: Sets, call: Callable[[Sets, int, Tensor], Tensor], *, tokens: int, period: int) -> Residual:
    """Run `tokens` tokens of set 0 of `sets` (output in fp32, rings NaN at first) by `call`, which publishes every `period` tokens."""
    pool = sets.pools[0]
    assert pool.ring is not None
    for ring in (pool.ring.x, pool.ring.B, pool.ring.dt):
        ring.fill_(float("nan"))
    exact = own = pool.state[1:].double()
    state_local = state_global = output = unlike = 0.0
    for token in range(tokens):
        sets.inputs[0] = sets.draw()
        sets.inputs[0].out.fill_(float("nan"))
        got = call(sets, 0, sets.in_step[token % sets.capacity]).double()
        exact, _ = _advance(sets, exact, sets.inputs[0])
        own, wanted = _advance(sets, own, sets.inputs[0])
        output = max(output, _worst(got, wanted))
        if (token + 1) % period == 0:
            stored = pool.state[1:]
            state_local = max(state_local, _worst(stored.double(), own))
            unlike = max(unlike, float((stored != own.to(stored.dtype)).double().mean()))
            state_global = _worst(stored.double(), exact)
            own = stored.double()
    return Residual(tokens=tokens, state_local=state_local, state_global=state_global, output=output, unlike_nearest=unlike)
