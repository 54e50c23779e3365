"""Mamba-2 over a window in float64, taken apart into the terms that every bound and every fit is made of.

    y_m = silu(z_m) * ( e^{G_m} S_0 C_m  +  sum_{j<=m} w_mj (B_j . C_m) x_j  +  D x_m ),     w_mj = dt_j e^{G_m - G_j}
    S_T = e^{G_T} S_0 + sum_j w_Tj x_j B_j^T,                                                 G_m = A sum_{i<=m} dt_i

Pinned to `recurrences.mamba2`, the scalar spec.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...layer import Mamba2Layer, Mamba2Tokens

__all__ = ["Mamba2Terms", "decompose", "free_dt", "limited"]


@dataclass(frozen=True, kw_only=True)
class Mamba2Terms:
    """The terms of a window, float64; every field may carry leading batch dims.

    start: [heads, head_dim, state_dim]. rate: A, [heads]. raw, dt, log_decay: [tokens, heads]; log_decay = A dt.
    total: [tokens, heads], log decay of the start state at each token. decay: e^total.
    span: [tokens, tokens, heads], log decay from token j (second dim) to token m (first), -inf for j > m. weight: dt_j e^span.
    x: [tokens, heads, head_dim]. B, C: [tokens, heads, state_dim], expanded from groups to heads.
    readout: [tokens, heads, head_dim], S_0 C_m. score: [tokens, tokens, heads], B_j . C_m.
    skip: [tokens, heads, head_dim], D x_m or zero. gate: silu(z_m), or None; z as given, or None.
    """

    start: Tensor
    rate: Tensor
    raw: Tensor
    dt: Tensor
    log_decay: Tensor
    total: Tensor
    decay: Tensor
    span: Tensor
    weight: Tensor
    x: Tensor
    B: Tensor
    C: Tensor
    readout: Tensor
    score: Tensor
    skip: Tensor
    z: Tensor | None

    @property
    def gate(self) -> Tensor | None:
        return None if self.z is None else self.z * torch.sigmoid(self.z)

    def ungated(self) -> Tensor:
        """Outputs before the z gate: [..., tokens, heads, head_dim]."""
        history = torch.einsum("...mjh,...jhp->...mhp", self.weight * self.score, self.x)
        return self.decay[..., None] * self.readout + history + self.skip

    def outputs(self) -> Tensor:
        """Exact outputs to float64: [..., tokens, heads, head_dim]."""
        return self.ungated() if self.gate is None else self.ungated() * self.gate

    def end(self) -> Tensor:
        """The state after the last token: [..., heads, head_dim, state_dim]."""
        weighted = self.weight[..., -1, :, :, None] * self.x
        folded = torch.einsum("...jhp,...jhn->...hpn", weighted, self.B)
        return self.decay[..., -1, :, None, None] * self.start + folded

    def state_fields(self) -> Tensor:
        """What one relative error of the start state's decay, then of each token's weight, adds to the end state:
        [..., heads, 1 + tokens, head_dim * state_dim].
        """
        weighted = self.weight[..., -1, :, :, None] * self.x
        tokens = torch.einsum("...jhp,...jhn->...hjpn", weighted, self.B)
        start = (self.decay[..., -1, :, None, None] * self.start).unsqueeze(-3)
        return torch.cat([start, tokens], -3).flatten(-2)

    def unit_fields(self) -> Tensor:
        """The same, of what shares one decay: a head."""
        return self.state_fields()

    def unit_kinds(self) -> tuple[str, ...]:
        """What each unit field of a token is an error of."""
        return self.field_kinds()

    def units(self, state: Tensor) -> Tensor:
        """A state by what shares one decay: [..., heads, head_dim * state_dim]."""
        return state.flatten(-2)

    def output_fields(self) -> Tensor:
        """The same of every output: [..., tokens, heads, 1 + tokens, head_dim]; fields of later tokens are zero."""
        start = (self.decay[..., None] * self.readout).unsqueeze(-2)
        tokens = torch.einsum("...mjh,...jhp->...mhjp", self.weight * self.score, self.x)
        fields = torch.cat([start, tokens], -2)
        return fields if self.gate is None else fields * self.gate.unsqueeze(-2)

    def field_kinds(self) -> tuple[str, ...]:
        """What is wrong with a token's weight in each of its fields."""
        return ("weight",)

    def beside(self) -> tuple[str, Tensor] | None:
        """A term of every output that the state has no part in, [..., tokens, heads, head_dim], by name; None where it is zero."""
        skip = self.skip if self.gate is None else self.skip * self.gate
        return ("the skip term D x", skip) if bool(skip.any()) else None


def decompose(layer: Mamba2Layer, start: Tensor, tokens: Mamba2Tokens) -> Mamba2Terms:
    """Take a window apart. Leading batch dims of `start` and of every tensor of `tokens` agree and are kept."""
    to64 = _float64
    rate = to64(layer.decay) if layer.variant.decay_parameter == "A" else -torch.exp(to64(layer.decay))
    raw = to64(tokens.dt)
    if layer.dt_bias is not None:
        raw = raw + to64(layer.dt_bias)
    dt = limited(layer, free_dt(layer, raw))
    log_decay = rate * dt
    total = torch.cumsum(log_decay, -2)
    span = _spans(log_decay)
    weight = dt[..., None, :, :] * torch.exp(span)
    group = layer.group_of_head().to(total.device)
    x, B, C = to64(tokens.x), to64(tokens.B)[..., group, :], to64(tokens.C)[..., group, :]
    begun, skip = to64(start), layer.skip_of_rows()
    return Mamba2Terms(
        start=begun, rate=rate, raw=raw, dt=dt, log_decay=log_decay, total=total, decay=torch.exp(total), span=span, weight=weight,
        x=x, B=B, C=C,
        readout=torch.einsum("...hpn,...mhn->...mhp", begun, C),
        score=torch.einsum("...jhn,...mhn->...mjh", B, C),
        skip=torch.zeros_like(x) if skip is None else to64(skip) * x,
        z=None if tokens.z is None else to64(tokens.z),
    )


def free_dt(layer: Mamba2Layer, raw: Tensor) -> Tensor:
    """dt before its limits, from dt with its bias."""
    return _softplus(raw) if layer.variant.softplus else raw


def limited(layer: Mamba2Layer, dt: Tensor) -> Tensor:
    """dt held to the limits of the variant."""
    return dt if layer.variant.dt_limits is None else dt.clamp(*layer.variant.dt_limits)


def _spans(log_decay: Tensor) -> Tensor:
    """Sum of the log decays after token j up to token m, each span by itself: a huge one elsewhere costs it nothing. -inf for j > m."""
    token = torch.arange(log_decay.shape[-2], device=log_decay.device)
    now, then, between = token[:, None, None], token[None, :, None], token[None, None, :]
    inside = ((then < between) & (between <= now)).to(torch.float64)
    past = (token[None, :] <= token[:, None])[:, :, None]
    return torch.where(past, torch.einsum("mji,...ih->...mjh", inside, log_decay), -torch.inf)


def _float64(value: Tensor) -> Tensor:
    return value.to(torch.float64)


def _softplus(raw: Tensor) -> Tensor:
    """log(1 + e^raw) without a threshold, accurate at both ends."""
    return torch.clamp(raw, min=0) + torch.log1p(torch.exp(-raw.abs()))
