"""Arithmetic of any number of digits through mpmath: the readable engine and the second opinion."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import mpmath

__all__ = ["Mpmath"]

#: Decimal digits carried beyond those asked for: sums of thousands of terms lose fewer.
_GUARD_DIGITS = 10


class Mpmath:
    """Floating point with `digits` decimal digits and some more. Errors are small but not proven.

    Every instance has a context of its own, so that numbers of two instances keep their own digits. Raises ValueError for digits < 1.
    """

    def __init__(self, *, digits: int = 50) -> None:
        if digits < 1:
            raise ValueError(f"digits must be at least 1, got {digits}")
        self.digits = digits
        self._context: Any = mpmath.mp.clone()
        self._context.dps = digits + _GUARD_DIGITS

    @property
    def name(self) -> str:
        return f"mpmath, {self.digits} digits"

    def working(self) -> AbstractContextManager[object]:
        return nullcontext()  # numbers carry their context

    def number(self, value: float) -> Any:
        if not math.isfinite(value):
            raise ValueError(f"a number must be finite, got {value}")
        return self._context.mpf(value)

    def exp(self, value: Any) -> Any:
        return self._context.exp(value)

    def sqrt(self, value: Any) -> Any:
        return self._context.sqrt(value)

    def softplus(self, value: Any) -> Any:
        if value > 0:
            return value + self._context.log1p(self._context.exp(-value))
        return self._context.log1p(self._context.exp(value))

    def clamp(self, value: Any, low: float, high: float) -> Any:
        return min(max(value, self._context.mpf(low)), self._context.mpf(high))

    def sigmoid(self, value: Any) -> Any:
        return 1 / (1 + self._context.exp(-value))

    def nearest(self, value: Any) -> float:
        return float(value)

    def text(self, value: Any) -> str:
        """`value` in decimal, `digits` digits."""
        return str(self._context.nstr(value, self.digits, strip_zeros=False))
