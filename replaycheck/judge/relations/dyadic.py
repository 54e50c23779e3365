"""Exact arithmetic on integers times a power of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Dyadic"]

_LIMIT = 2.0**62


@dataclass(frozen=True)
class Dyadic:
    """The numbers units * 2^exponent; units: int64. No operation rounds; one that would overflow raises OverflowError."""

    units: Tensor
    exponent: int

    @staticmethod
    def of(values: Tensor) -> Dyadic:
        """The numbers of a floating-point tensor. Raises ValueError where one is not finite, OverflowError where they span 62 bits."""
        wide = values.double()
        if not bool(wide.isfinite().all()):
            raise ValueError("exact arithmetic needs finite numbers")
        mantissa, exponent = torch.frexp(wide)
        units = (mantissa * 2.0**53).to(torch.int64)
        if not bool((units != 0).any()):
            return Dyadic(units, 0)
        lowest = (units & -units).clamp(min=1).double().log2().to(torch.int64)          # trailing zeros: exact, a power of two below 2^53
        least = int((exponent - 53 + lowest)[units != 0].min())
        scaled = torch.ldexp(wide, torch.tensor(-least, dtype=torch.float64))
        _within(float(scaled.abs().max()) * 2.0**9)                                     # int64 of a float64 below 2^53
        return Dyadic(scaled.to(torch.int64), least)

    def __getitem__(self, index: Any) -> Dyadic:
        return Dyadic(self.units[index], self.exponent)

    def __mul__(self, other: Dyadic) -> Dyadic:
        _within(self._largest() * other._largest())
        return Dyadic(self.units * other.units, self.exponent + other.exponent)

    def __add__(self, other: Dyadic) -> Dyadic:
        exponent = min(self.exponent, other.exponent)
        left, right = self._at(exponent), other._at(exponent)
        return Dyadic(left + right, exponent)

    def sum(self, axis: int) -> Dyadic:
        """The sums along one axis."""
        _within(self._largest() * self.units.shape[axis])
        return Dyadic(self.units.sum(axis), self.exponent)

    def to_float64(self) -> Tensor:
        """The numbers in float64. Raises OverflowError where one needs more than 53 bits."""
        _within(self._largest() * 2.0**9)
        return torch.ldexp(self.units.double(), torch.tensor(self.exponent, dtype=torch.float64))

    def _at(self, exponent: int) -> Tensor:
        """The units at a smaller exponent, one bit to spare."""
        _within(2 * self._largest() * 2.0 ** (self.exponent - exponent))
        return self.units << (self.exponent - exponent)

    def _largest(self) -> float:
        return float(self.units.abs().max()) if self.units.numel() else 0.0


def _within(largest: float) -> None:
    if largest >= _LIMIT:
        raise OverflowError(f"exact integer arithmetic would reach {largest:.3g}, the limit is 2^62")
