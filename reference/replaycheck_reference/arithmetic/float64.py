"""Arithmetic of Python floats: fast, one rounding an operation."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

__all__ = ["Float64"]


class Float64:
    """IEEE double precision. Functions are accurate to a few units of 2^-53, relative to their value, where that is a normal number."""

    name = "float64"

    def working(self) -> AbstractContextManager[object]:
        return nullcontext()

    def number(self, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError(f"a number must be finite, got {value}")
        return float(value)

    def exp(self, value: float) -> float:
        try:
            return math.exp(value)
        except OverflowError:
            return math.inf

    def sqrt(self, value: float) -> float:
        return math.sqrt(value)

    def softplus(self, value: float) -> float:
        return max(value, 0.0) + math.log1p(math.exp(-abs(value)))

    def clamp(self, value: float, low: float, high: float) -> float:
        return min(max(value, low), high)

    def sigmoid(self, value: float) -> float:
        small = math.exp(-abs(value))
        return (1.0 if value >= 0 else small) / (1.0 + small)

    def nearest(self, value: float) -> float:
        return value
