"""Engines of arithmetic under one interface: float64, mpmath (any digits) and arb (proven balls, where python-flint is installed)."""

from .balls import Arb, available
from .float64 import Float64
from .interface import Arithmetic, Number, Value
from .multiprecision import Mpmath

__all__ = ["Arb", "Arithmetic", "Float64", "Mpmath", "Number", "Value", "available"]
