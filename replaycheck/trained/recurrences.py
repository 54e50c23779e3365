"""The recurrences of the model as modules: what they receive is what a recording holds. Each has a chunked form and a form of one token."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["GatedDeltaRecurrence", "Mamba2Recurrence"]

_DT = (1e-3, 1e-1)      # dt at the start of training, log-uniform
_A = (1.0, 16.0)        # -A at the start of training, uniform


class Mamba2Recurrence(nn.Module):
    """S <- e^(A dt) S + dt x B^T, y = (S C + D x) silu(z), with dt = softplus(raw + dt_bias) and A = -e^A_log, for every head.

    heads // groups consecutive heads share B and C. chunk: tokens that the chunked form takes at a time.
    """

    def __init__(self, heads: int, head_dim: int, state_dim: int, groups: int, *, chunk: int = 32) -> None:
        super().__init__()
        self.heads, self.head_dim, self.state_dim, self.groups, self.chunk = heads, head_dim, state_dim, groups, chunk
        dt = torch.exp(torch.empty(heads).uniform_(*map(math.log, _DT)))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.empty(heads).uniform_(*_A).log())
        self.D = nn.Parameter(torch.ones(heads))

    def empty(self, requests: int) -> Tensor:
        """The state before the first token: zeros [requests, heads, head_dim, state_dim]."""
        return self.D.new_zeros(requests, self.heads, self.head_dim, self.state_dim)

    @property
    def decay(self) -> Tensor:
        """A: [heads]."""
        return -torch.exp(self.A_log)

    def forward(self, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, z: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and end state for any number of tokens.

        x, z: [requests, tokens, heads, head_dim]; dt, raw: [requests, tokens, heads]; B, C: [requests, tokens, groups, state_dim];
        start: [requests, heads, head_dim, state_dim]. Returns y shaped like x, and the end state shaped like start.
        """
        rate = F.softplus(dt + self.dt_bias)
        step = self._token if x.shape[1] == 1 else self._chunk
        state, outputs = start, []
        share = self.heads // self.groups
        Bh, Ch = B.repeat_interleave(share, dim=2), C.repeat_interleave(share, dim=2)
        for at in range(0, x.shape[1], self.chunk):
            part = slice(at, at + self.chunk)
            y, state = step(x[:, part], rate[:, part], Bh[:, part], Ch[:, part], state)
            outputs.append(y)
        return (torch.cat(outputs, dim=1) + self.D[:, None] * x) * F.silu(z), state

    def _token(self, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        decay = torch.exp(self.decay * dt[:, 0])[..., None, None]
        state = decay * start + (dt[:, 0, :, None] * x[:, 0])[..., None] * B[:, 0, :, None, :]
        return torch.einsum("rhpn,rhn->rhp", state, C[:, 0])[:, None], state

    def _chunk(self, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.cumsum(self.decay * dt, dim=1).transpose(1, 2)            # [requests, heads, tokens], inclusive
        weights = _weights(total) * dt.transpose(1, 2)[:, :, None, :]           # of token j as seen at token i
        carried = torch.exp(total)
        x, B, C = x.transpose(1, 2), B.transpose(1, 2), C.transpose(1, 2)       # [requests, heads, tokens, dim]
        y = (weights * (C @ B.transpose(-1, -2))) @ x + (carried[..., None] * C) @ start.transpose(-1, -2)
        end = carried[..., -1, None, None] * start + (weights[:, :, -1, :, None] * x).transpose(-1, -2) @ B
        return y.transpose(1, 2), end


class GatedDeltaRecurrence(nn.Module):
    """S <- a S, d = beta (v - S k), S <- S + d k^T, o = S q, with a = e^g, g = -e^A_log softplus(raw + dt_bias), beta = sigmoid(b).

    q and k are divided by sqrt(sum of squares + 1e-6), q is scaled by key_dim^-1/2. value_heads // heads consecutive value heads share
    q and k. chunk: tokens that the chunked form takes at a time.
    """

    def __init__(self, heads: int, value_heads: int, key_dim: int, value_dim: int, *, chunk: int = 32) -> None:
        super().__init__()
        self.heads, self.value_heads, self.key_dim, self.value_dim, self.chunk = heads, value_heads, key_dim, value_dim, chunk
        dt = torch.exp(torch.empty(value_heads).uniform_(*map(math.log, _DT)))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.empty(value_heads).uniform_(*_A).log())

    def empty(self, requests: int) -> Tensor:
        """The state before the first token: zeros [requests, value_heads, value_dim, key_dim]."""
        return self.dt_bias.new_zeros(requests, self.value_heads, self.value_dim, self.key_dim)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs and end state for any number of tokens.

        q, k: [requests, tokens, heads, key_dim]; v: [requests, tokens, value_heads, value_dim]; a, b, raw gates: [requests, tokens,
        value_heads]; start: [requests, value_heads, value_dim, key_dim]. Returns o shaped like v, and the end state shaped like start.
        """
        share = self.value_heads // self.heads
        q = (_unit(q) * self.key_dim**-0.5).repeat_interleave(share, dim=2)
        k = _unit(k).repeat_interleave(share, dim=2)
        log_decay = -torch.exp(self.A_log) * F.softplus(a + self.dt_bias)
        beta = torch.sigmoid(b)
        step = self._token if q.shape[1] == 1 else self._chunk
        state, outputs = start, []
        for at in range(0, q.shape[1], self.chunk):
            part = slice(at, at + self.chunk)
            o, state = step(q[:, part], k[:, part], v[:, part], log_decay[:, part], beta[:, part], state)
            outputs.append(o)
        return torch.cat(outputs, dim=1), state

    def _token(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.exp(g[:, 0])[..., None, None] * start
        delta = beta[:, 0, :, None] * (v[:, 0] - torch.einsum("rhvk,rhk->rhv", state, k[:, 0]))
        state = state + delta[..., None] * k[:, 0, :, None, :]
        return torch.einsum("rhvk,rhk->rhv", state, q[:, 0])[:, None], state

    def _chunk(self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """The deltas of a chunk solve (I + L) d = beta (v - e^G S0 k), L strictly lower: L_ij = beta_i e^(G_i - G_j) k_i . k_j."""
        total = torch.cumsum(g, dim=1).transpose(1, 2)
        weights, carried = _weights(total), torch.exp(total)
        beta = beta.transpose(1, 2)[..., None]
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)       # [requests, heads, tokens, dim]
        lower = torch.tril(beta * weights * (k @ k.transpose(-1, -2)), diagonal=-1)
        right = beta * (v - carried[..., None] * (k @ start.transpose(-1, -2)))
        delta = torch.linalg.solve_triangular(lower + torch.eye(k.shape[2], dtype=k.dtype), right, upper=False, unitriangular=True)
        o = carried[..., None] * (q @ start.transpose(-1, -2)) + (weights * (q @ k.transpose(-1, -2))) @ delta
        end = carried[..., -1, None, None] * start + (weights[:, :, -1, :, None] * delta).transpose(-1, -2) @ k
        return o.transpose(1, 2), end


def _weights(total: Tensor) -> Tensor:
    """e^(G_i - G_j) for j <= i, else 0: [..., tokens, tokens] from the inclusive sums [..., tokens]."""
    difference = total[..., :, None] - total[..., None, :]
    later = torch.ones(difference.shape[-2:], dtype=torch.bool).triu(1)
    return torch.exp(difference.masked_fill(later, -math.inf))


def _unit(v: Tensor) -> Tensor:
    return v * torch.rsqrt(v.square().sum(dim=-1, keepdim=True) + 1e-6)
