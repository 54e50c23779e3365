"""The model: bytes in, logits of the next byte out; Mamba-2 and gated delta layers in turn, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .recurrences import GatedDeltaRecurrence, Mamba2Recurrence

__all__ = ["Cache", "DeltaLayer", "HybridModel", "Mamba2Layer", "Sizes"]

_CONVOLUTION = 4        # width


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a model. layers: "mamba2" or "gdn" each. heads, head_dim, state_dim, groups: of a Mamba-2 layer; qk_heads, value_heads, dim:
    of a gated delta layer, whose keys and values are both `dim` wide."""

    width: int = 64
    layers: tuple[str, ...] = ("mamba2", "gdn", "mamba2", "gdn")
    heads: int = 4
    head_dim: int = 32
    state_dim: int = 32
    groups: int = 2
    qk_heads: int = 2
    value_heads: int = 4
    dim: int = 32
    vocabulary: int = 256


@dataclass
class Cache:
    """What one layer carries from token to token. state: of the recurrence; history: the last three inputs of the convolution,
    [requests, 3, channels]."""

    state: Tensor
    history: Tensor


class _Convolution(nn.Module):
    """A causal convolution of width 4 over each channel, and SiLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.weight = nn.Parameter(torch.empty(channels, 1, _CONVOLUTION).uniform_(-0.5, 0.5))
        self.bias = nn.Parameter(torch.zeros(channels))

    def empty(self, requests: int) -> Tensor:
        return self.bias.new_zeros(requests, _CONVOLUTION - 1, self.channels)

    def forward(self, inputs: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        whole = torch.cat([history, inputs], dim=1)
        made = F.conv1d(whole.transpose(1, 2), self.weight, self.bias, groups=self.channels).transpose(1, 2)
        return F.silu(made), whole[:, -(_CONVOLUTION - 1):]


class Mamba2Layer(nn.Module):
    """In-projection, convolution, recurrence with its gate, norm, out-projection."""

    kind = "mamba2"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        inner, shared = sizes.heads * sizes.head_dim, sizes.groups * sizes.state_dim
        self.parts = [inner, inner + 2 * shared, sizes.heads]
        self.split = [inner, shared, shared]
        self.inputs = nn.Linear(sizes.width, sum(self.parts), bias=False)
        self.convolution = _Convolution(self.parts[1])
        self.recurrence = Mamba2Recurrence(sizes.heads, sizes.head_dim, sizes.state_dim, sizes.groups)
        self.norm = nn.RMSNorm(inner, eps=1e-5)
        self.outputs = nn.Linear(inner, sizes.width, bias=False)

    def empty(self, requests: int) -> Cache:
        return Cache(self.recurrence.empty(requests), self.convolution.empty(requests))

    def forward(self, hidden: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        z, mixed, dt = self.inputs(hidden).split(self.parts, dim=-1)
        mixed, history = self.convolution(mixed, cache.history)
        x, B, C = mixed.split(self.split, dim=-1)
        heads, narrow = (self.recurrence.heads, -1), (self.recurrence.groups, -1)
        y, state = self.recurrence(x.unflatten(-1, heads), dt, B.unflatten(-1, narrow), C.unflatten(-1, narrow), z.unflatten(-1, heads),
                                   cache.state)
        return self.outputs(self.norm(y.flatten(-2))), Cache(state, history)


class DeltaLayer(nn.Module):
    """In-projection, convolution, gated delta recurrence, norm, gate, out-projection."""

    kind = "gdn"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        keys, values = sizes.qk_heads * sizes.dim, sizes.value_heads * sizes.dim
        self.parts = [values, 2 * keys + values, sizes.value_heads, sizes.value_heads]
        self.split = [keys, keys, values]
        self.inputs = nn.Linear(sizes.width, sum(self.parts), bias=False)
        self.convolution = _Convolution(self.parts[1])
        self.recurrence = GatedDeltaRecurrence(sizes.qk_heads, sizes.value_heads, sizes.dim, sizes.dim)
        self.norm = nn.RMSNorm(sizes.dim, eps=1e-5)
        self.outputs = nn.Linear(values, sizes.width, bias=False)

    def empty(self, requests: int) -> Cache:
        return Cache(self.recurrence.empty(requests), self.convolution.empty(requests))

    def forward(self, hidden: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        z, mixed, a, b = self.inputs(hidden).split(self.parts, dim=-1)
        mixed, history = self.convolution(mixed, cache.history)
        q, k, v = mixed.split(self.split, dim=-1)
        heads, values = (self.recurrence.heads, -1), (self.recurrence.value_heads, -1)
        o, state = self.recurrence(q.unflatten(-1, heads), k.unflatten(-1, heads), v.unflatten(-1, values), a, b, cache.state)
        return self.outputs(self.norm(o).flatten(-2) * F.silu(z)), Cache(state, history)


_KINDS = {layer.kind: layer for layer in (Mamba2Layer, DeltaLayer)}


class HybridModel(nn.Module):
    """Residual layers between an embedding and its transpose. More than one token at a time runs chunked, one runs recurrent; both are the
    same recurrence. Raises ValueError naming a kind of layer that is not known."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes = sizes or Sizes()
        for kind in sizes.layers:
            if kind not in _KINDS:
                raise ValueError(f"a layer must be one of {', '.join(_KINDS)}, got {kind!r}")
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.norms = nn.ModuleList(nn.RMSNorm(sizes.width, eps=1e-5) for _ in sizes.layers)
        self.layers = nn.ModuleList(_KINDS[kind](sizes) for kind in sizes.layers)
        self.norm = nn.RMSNorm(sizes.width, eps=1e-5)

    def empty(self, requests: int) -> list[Cache]:
        """The caches before the first token, one a layer."""
        return [layer.empty(requests) for layer in self.layers]     # type: ignore[operator]  # every layer is one of _KINDS

    def forward(self, tokens: Tensor, caches: Sequence[Cache]) -> tuple[Tensor, list[Cache]]:
        """Logits [requests, tokens, vocabulary] of the byte after each of `tokens`, int64 [requests, tokens], and the caches after them."""
        hidden, kept = self.embedding(tokens), []
        for norm, layer, cache in zip(self.norms, self.layers, caches, strict=True):
            change, after = layer(norm(hidden), cache)
            hidden = hidden + change
            kept.append(after)
        return F.linear(self.norm(hidden), self.embedding.weight), kept
