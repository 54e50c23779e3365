"""What every run of tokens has in common: tensors of one leading dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

__all__ = ["TokenRun"]


@dataclass(frozen=True, kw_only=True)
class TokenRun:
    """Tensors [tokens, ...], one entry a token, in activation dtypes, as exact bits; None where the variant has none."""

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    @property
    def dtype(self) -> torch.dtype:
        """The activation dtype: that of what is multiplied with the state."""
        return next(iter(self.tensors().values())).dtype

    def __len__(self) -> int:
        return int(next(iter(self.tensors().values())).shape[0])

    def map(self, fn: Callable[[Tensor], Tensor]) -> Self:
        """The same tokens with `fn` applied to every tensor."""
        return replace(self, **{name: fn(value) for name, value in self.tensors().items()})

    def __getitem__(self, rows: slice | Tensor) -> Self:
        return self.map(lambda t: t[rows])

    @classmethod
    def cat(cls, parts: Sequence[Self]) -> Self:
        """The parts one after the other."""
        return replace(parts[0], **{name: torch.cat([part.tensors()[name] for part in parts]) for name in parts[0].tensors()})
