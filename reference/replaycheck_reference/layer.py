"""A layer: geometry and parameters as exact bits, and the tokens it receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from .variant import Mamba2Variant

__all__ = ["Mamba2Layer", "Mamba2Tokens"]


@dataclass(frozen=True, kw_only=True)
class Mamba2Layer:
    """Geometry and exact parameters of one Mamba-2 layer.

    The state of a request is S[heads, head_dim, state_dim]; B and C are shared by heads // groups consecutive heads.
    decay: fp32 [heads]: A or A_log, as `variant.decay_parameter` says. dt_bias, D: fp32 [heads], None where the variant has none;
    D is fp32 [heads, head_dim] where `variant.skip_rows`.

    Raises ValueError naming the field where geometry or parameters disagree.
    """

    heads: int
    head_dim: int
    state_dim: int
    groups: int
    decay: Tensor
    dt_bias: Tensor | None = None
    D: Tensor | None = None
    variant: Mamba2Variant = field(default_factory=Mamba2Variant)

    def __post_init__(self) -> None:
        for name in ("heads", "head_dim", "state_dim", "groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"layer.{name} must be at least 1, got {getattr(self, name)}")
        if self.heads % self.groups:
            raise ValueError(f"layer.groups must divide layer.heads, got {self.groups} and {self.heads}")
        wanted = {"decay": True, "dt_bias": self.variant.bias, "D": self.variant.skip}
        for name, present in wanted.items():
            value = getattr(self, name)
            if (value is not None) != present:
                raise ValueError(f"layer.{name} must be {'given' if present else 'absent'} for {self.variant}")
            shape = (self.heads, self.head_dim) if name == "D" and self.variant.skip_rows else (self.heads,)
            if value is not None and (tuple(value.shape) != shape or value.dtype != torch.float32):
                raise ValueError(f"layer.{name} must be float32 {list(shape)}, got {value.dtype} {tuple(value.shape)}")

    @property
    def state_shape(self) -> tuple[int, int, int]:
        return (self.heads, self.head_dim, self.state_dim)

    def group_of_head(self) -> Tensor:
        """Index of the group whose B and C each head uses: int64 [heads]."""
        return torch.arange(self.heads) // (self.heads // self.groups)

    def skip_of_rows(self) -> Tensor | None:
        """D of every head and row: fp32 [heads, head_dim], or [heads, 1] where a head has one; None where the variant has none."""
        return self.D if self.D is None or self.variant.skip_rows else self.D[:, None]

    def to(self, device: torch.device | str) -> Mamba2Layer:
        bias = None if self.dt_bias is None else self.dt_bias.to(device)
        return replace(self, decay=self.decay.to(device), dt_bias=bias, D=None if self.D is None else self.D.to(device))


@dataclass(frozen=True, kw_only=True)
class Mamba2Tokens:
    """What a Mamba-2 layer receives for a run of tokens (raw gates), in activation dtypes, as exact bits.

    x: [tokens, heads, head_dim]; dt: [tokens, heads], before bias and softplus; B, C: [tokens, groups, state_dim];
    z: [tokens, heads, head_dim] where the variant is gated, else None. In a forward, tokens are packed in row order.
    """

    x: Tensor
    dt: Tensor
    B: Tensor
    C: Tensor
    z: Tensor | None = None

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def map(self, fn: Callable[[Tensor], Tensor]) -> Mamba2Tokens:
        """The same tokens with `fn` applied to every tensor."""
        return Mamba2Tokens(x=fn(self.x), dt=fn(self.dt), B=fn(self.B), C=fn(self.C), z=None if self.z is None else fn(self.z))

    def __getitem__(self, rows: slice | Tensor) -> Mamba2Tokens:
        return self.map(lambda t: t[rows])

    @staticmethod
    def cat(parts: list[Mamba2Tokens]) -> Mamba2Tokens:
        """The parts one after the other."""
        z = None if parts[0].z is None else torch.cat([p.z for p in parts if p.z is not None])
        return Mamba2Tokens(
            x=torch.cat([p.x for p in parts]), dt=torch.cat([p.dt for p in parts]),
            B=torch.cat([p.B for p in parts]), C=torch.cat([p.C for p in parts]), z=z,
        )
