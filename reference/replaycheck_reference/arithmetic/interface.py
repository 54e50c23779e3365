"""What a scalar specification needs of numbers, and nothing more."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeVar

__all__ = ["Arithmetic", "Number", "Value"]


class Value(Protocol):
    """A number of some arithmetic."""

    def __add__(self, other: Self, /) -> Self: ...

    def __sub__(self, other: Self, /) -> Self: ...

    def __mul__(self, other: Self, /) -> Self: ...

    def __truediv__(self, other: Self, /) -> Self: ...

    def __neg__(self) -> Self: ...


Number = TypeVar("Number", bound=Value)


class Arithmetic(Protocol[Number]):
    """A set of numbers with the functions a recurrence uses.

    Numbers of one arithmetic combine by + - * / and unary -, inside `working()`.
    """

    @property
    def name(self) -> str:
        """Shown in reports."""

    def working(self) -> AbstractContextManager[object]:
        """Within this context operators and functions carry the digits of this arithmetic."""

    def number(self, value: float) -> Number:
        """`value` exactly. Raises ValueError naming a value that is not finite."""

    def exp(self, value: Number) -> Number:
        """e^value."""

    def sqrt(self, value: Number) -> Number:
        """The root of a `value` that is not negative."""

    def softplus(self, value: Number) -> Number:
        """log(1 + e^value), accurate relative to itself for every value and with no threshold."""

    def clamp(self, value: Number, low: float, high: float) -> Number:
        """`value` held to [low, high]."""

    def sigmoid(self, value: Number) -> Number:
        """1 / (1 + e^-value), accurate relative to itself for every value."""

    def nearest(self, value: Number) -> float:
        """The float64 nearest to `value` (to the middle, where numbers are balls)."""
