"""What every layer has in common: the shape of its state, and parameters that are checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

__all__ = ["ShapedLayer"]


@dataclass(frozen=True, kw_only=True)
class ShapedLayer:
    """Geometry of one layer: the state of a request is S[heads, head_dim, state_dim], and heads // groups consecutive heads share what a
    group has one of.

    Raises ValueError naming the field where a size is below 1 or groups do not divide heads.
    """

    heads: int
    head_dim: int
    state_dim: int
    groups: int

    def __post_init__(self) -> None:
        for name in ("heads", "head_dim", "state_dim", "groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"layer.{name} must be at least 1, got {getattr(self, name)}")
        if self.heads % self.groups:
            raise ValueError(f"layer.groups must divide layer.heads, got {self.groups} and {self.heads}")

    def _check_parameters(self, wanted: Mapping[str, tuple[int, ...] | None], variant: object) -> None:
        """Raises ValueError where a parameter has not the shape wanted of it; None wants it absent."""
        for name, shape in wanted.items():
            value = getattr(self, name)
            if (value is not None) != (shape is not None):
                raise ValueError(f"layer.{name} must be {'absent' if shape is None else 'given'} for {variant}")
            if value is not None and (tuple(value.shape) != shape or value.dtype != torch.float32):
                raise ValueError(f"layer.{name} must be float32 {list(shape or ())}, got {value.dtype} {tuple(value.shape)}")

    @property
    def state_shape(self) -> tuple[int, int, int]:
        return (self.heads, self.head_dim, self.state_dim)

    def group_of_head(self) -> Tensor:
        """Index of the group that each head belongs to: int64 [heads]."""
        return torch.arange(self.heads) // (self.heads // self.groups)

    def parameters(self) -> dict[str, Tensor]:
        """The parameters that are there, by name."""
        return {f.name: value for f in fields(self) if isinstance(value := getattr(self, f.name), Tensor)}

    def to(self, device: torch.device | str) -> Self:
        moved: dict[str, Any] = {name: value.to(device) for name, value in self.parameters().items()}
        return replace(self, **moved)
