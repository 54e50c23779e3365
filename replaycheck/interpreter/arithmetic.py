"""Element-wise arithmetic: narrow formats by value, NaN as the device treats it, an exact fused multiply-add."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton._C.libtriton import ir
from triton.runtime import interpreter as upstream

from .casts import decode, encode, is_narrow, numpy_dtype, round_to_odd

__all__ = ["fused_multiply_add", "patch"]

Array = NDArray[Any]


def _binary(self: Any, left: Any, right: Any, operation: Callable[..., Array]) -> Any:
    scalar = left.dtype.scalar
    if scalar.is_floating() and is_narrow(scalar):
        out = operation(decode(left.data, scalar), decode(right.data, scalar))
        return upstream.TensorHandle(out, tl.int1) if out.dtype == np.bool_ else upstream.TensorHandle(encode(out, scalar), scalar)
    out = operation(left.data, right.data)
    if out.dtype == np.bool_:
        return upstream.TensorHandle(out, tl.int1)
    wanted = numpy_dtype(scalar)
    return upstream.TensorHandle(out if out.dtype == wanted else out.astype(wanted), scalar)


def _unary(self: Any, argument: Any, operation: Callable[..., Array]) -> Any:
    scalar = argument.dtype.scalar
    if scalar.is_floating() and is_narrow(scalar):
        return upstream.TensorHandle(encode(operation(decode(argument.data, scalar)), scalar), scalar)
    return upstream.TensorHandle(operation(argument.data), scalar)


def _select(self: Any, condition: Any, left: Any, right: Any) -> Any:
    # A pointer that may come from either operand belongs to neither argument.
    scalar = right.dtype.scalar
    if scalar.is_ptr() and scalar is not left.dtype.scalar:
        scalar = tl.pointer_type(scalar.element_ty, scalar.address_space)
    return upstream.TensorHandle(np.where(condition.data, left.data, right.data), scalar)


def _clamp(self: Any, argument: Any, low: Any, high: Any, propagate_nan: Any) -> Any:
    scalar = argument.dtype.scalar
    value, low_value, high_value = (decode(t.data, scalar) for t in (argument, low, high))
    larger, smaller = (np.maximum, np.minimum) if propagate_nan == ir.PROPAGATE_NAN.ALL else (np.fmax, np.fmin)
    return upstream.TensorHandle(encode(smaller(larger(value, low_value), high_value), scalar), scalar)


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """x*y + z of float32 arrays (or of float64 arrays holding values of at most 24 bits in fp32's range) before its last rounding.

    float64, rounded to odd: rounding it once more, to fp32 or shorter, gives the correctly rounded result.
    """
    product = x.astype(np.float64) * y.astype(np.float64)          # exact: 48 bits
    addend = z.astype(np.float64)
    total = product + addend
    seen = total - product
    error = (product - (total - seen)) + (addend - seen)           # exact (Knuth's two-sum)
    return round_to_odd(total, error)


def _fused_double(x: float, y: float, z: float) -> float:
    plain = x * y + z
    if not all(map(np.isfinite, (x, y, z))):
        return plain
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return plain                                                # keeps the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float(np.copysign(np.inf, 1 if exact > 0 else -1))


def _fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    scalar = z.dtype.scalar
    if not scalar.is_floating():
        return upstream.TensorHandle((x.data * y.data + z.data).astype(numpy_dtype(scalar)), scalar)
    values = [decode(t.data, scalar) for t in (x, y, z)]
    if scalar.is_fp64():
        flat = [np.ravel(v).tolist() for v in np.broadcast_arrays(*values)]
        out = np.array([_fused_double(*v) for v in zip(*flat, strict=True)]).reshape(np.broadcast_shapes(*(v.shape for v in values)))
        return upstream.TensorHandle(out, scalar)
    return upstream.TensorHandle(encode(fused_multiply_add(*values), scalar), scalar)


def patch() -> None:
    """Put this arithmetic into the interpreter's builder."""
    builder = upstream.InterpreterBuilder
    builder.binary_op = _binary
    builder.unary_op = _unary
    builder.create_select = _select
    builder.create_clampf = _clamp
    builder.create_fma = _fma
    # PTX min and max return the number where one operand is NaN; only the .NaN forms propagate it.
    builder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)
    builder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
