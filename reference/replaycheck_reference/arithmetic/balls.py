"""Arithmetic of balls through python-flint: every result encloses the exact value, so its radius is a proof."""

from __future__ import annotations

import importlib.util
import math
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import arb

__all__ = ["Arb", "available", "bits_of", "radius_above"]

#: Bits carried beyond the digits asked for: sums of thousands of terms lose fewer.
_GUARD_BITS = 32


def available() -> bool:
    """Whether python-flint is installed."""
    return importlib.util.find_spec("flint") is not None


def bits_of(digits: int) -> int:
    """Working precision in bits for `digits` decimal digits. Raises ValueError for digits < 1."""
    if digits < 1:
        raise ValueError(f"digits must be at least 1, got {digits}")
    return math.ceil(digits * math.log2(10)) + _GUARD_BITS


class Arb:
    """Real balls with `digits` decimal digits and some more.

    Operators take their precision from a global of python-flint, which `working()` sets and restores. Raises ImportError where
    python-flint is absent.
    """

    def __init__(self, *, digits: int = 50) -> None:
        import flint

        self.digits = digits
        self._bits = bits_of(digits)
        self._flint = flint

    @property
    def name(self) -> str:
        return f"arb, {self.digits} digits"

    def working(self) -> AbstractContextManager[object]:
        return self._flint.ctx.workprec(self._bits)

    def number(self, value: float) -> arb:
        if not math.isfinite(value):
            raise ValueError(f"a number must be finite, got {value}")
        return self._flint.arb(value)

    def exp(self, value: arb) -> arb:
        return value.exp()

    def sqrt(self, value: arb) -> arb:
        return value.sqrt()

    def softplus(self, value: arb) -> arb:
        # Both branches are the same function, so the choice by the middle of the ball stays an enclosure.
        if value.mid() > 0:
            return value + (-value).exp().log1p()
        return value.exp().log1p()

    def clamp(self, value: arb, low: float, high: float) -> arb:
        return value.max(self._flint.arb(low)).min(self._flint.arb(high))

    def sigmoid(self, value: arb) -> arb:
        return 1 / (1 + (-value).exp())

    def nearest(self, value: arb) -> float:
        return float(value.mid())

    def text(self, value: arb) -> str:
        """The middle of `value` in decimal, `digits` digits."""
        return value.mid().str(self.digits, radius=False, more=True)


def radius_above(value: arb) -> float:
    """A float64 that is not below the radius of `value`; 0.0 only where it is exact."""
    radius = float(value.rad())
    return 0.0 if radius == 0.0 and value.is_exact() else math.nextafter(radius, math.inf)
