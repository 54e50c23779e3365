"""Dots: which bits of the operands a tensor core sees. Products are exact; sums are fp32 in BLAS order.

The device's tensor-core sum is not emulated: it rounds less carefully than fp32, and the policy's accumulator says so.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton._C.libtriton import ir
from triton.runtime import interpreter as upstream

from .casts import decode, encode, numpy_dtype

__all__ = ["Tf32", "patch", "split_bf16", "split_tf32", "tf32_nearest", "tf32_truncate"]

Array = NDArray[Any]
Tf32 = Literal["truncate", "nearest"]

_KEPT = np.uint32(0xFFFFE000)


def tf32_truncate(values: Array) -> Array:
    """fp32 values with the 13 low bits cut off, as a tensor core reads them; NaN stays NaN."""
    bits = values.view(np.uint32)
    return np.where(np.isnan(values), values, (bits & _KEPT).view(np.float32))


def tf32_nearest(values: Array) -> Array:
    """fp32 values rounded to tf32, ties away from zero (PTX cvt.rna.tf32.f32); NaN stays NaN."""
    bits = values.view(np.uint32)
    return np.where(np.isnan(values), values, ((bits + np.uint32(0x1000)) & _KEPT).view(np.float32))


def split_tf32(values: Array) -> tuple[Array, Array]:
    """The high part, rounded to tf32, and the rest as fp32: the split that Triton compiles for tf32x3."""
    high = tf32_nearest(values)
    return high, values - high


def split_bf16(values: Array, parts: int) -> list[Array]:
    """fp32 values as a sum of bf16 parts, largest first, each held as fp32."""
    out = []
    for _ in range(parts):
        bf16 = decode(encode(values, tl.bfloat16), tl.bfloat16)
        out.append(bf16)
        values = values - bf16
    return out


def _without_nan(values: Array) -> Array:
    # inf * 0 among the small products is cleared before the large product is added, as the compiled form does.
    return np.where(np.isnan(values), np.float32(0), values)


class _Dot:
    """How fp32 operands enter a plain tf32 product."""

    def __init__(self, tf32: Tf32) -> None:
        self.round = {"truncate": tf32_truncate, "nearest": tf32_nearest}[tf32]

    def tf32x3(self, a: Array, b: Array) -> Array:
        (a_high, a_low), (b_high, b_low) = split_tf32(a), split_tf32(b)
        small = np.matmul(self.round(a_low), b_high)
        small = small + np.matmul(a_high, self.round(b_low))
        total: Array = _without_nan(small) + np.matmul(a_high, b_high)
        return total

    def bf16_parts(self, a: Array, b: Array, parts: int) -> Array:
        """parts = 2: three products; parts = 3: six, smallest first."""
        left, right = split_bf16(a, parts), split_bf16(b, parts)
        pairs = [(1, 0), (0, 1)] if parts == 2 else [(1, 1), (2, 0), (0, 2), (1, 0), (0, 1)]
        small: Array = np.zeros((), dtype=np.float32)
        for i, j in pairs:
            small = small + np.matmul(left[i], right[j])
        total: Array = _without_nan(small) + np.matmul(left[0], right[0])
        return total

    def single(self, a: Array, b: Array, precision: Any) -> Array:
        if precision == ir.INPUT_PRECISION.TF32:
            a, b = self.round(a), self.round(b)
        if precision == ir.INPUT_PRECISION.TF32x3:
            return self.tf32x3(a, b)
        if precision == ir.INPUT_PRECISION.BF16x3:
            return self.bf16_parts(a, b, 2)
        if precision == ir.INPUT_PRECISION.BF16x6:
            return self.bf16_parts(a, b, 3)
        product: Array = np.matmul(a, b)
        return product

    def __call__(self, a: Any, b: Any, d: Any, precision: Any) -> Any:
        out_type = d.dtype.scalar
        accumulator = numpy_dtype(out_type)
        left, right = decode(a.data, a.dtype.scalar), decode(b.data, b.dtype.scalar)
        if a.dtype.scalar.is_fp32() and b.dtype.scalar.is_fp32():
            product = self.single(np.ascontiguousarray(left), np.ascontiguousarray(right), precision)
        else:
            product = np.matmul(left.astype(accumulator), right.astype(accumulator))
        return upstream.TensorHandle(product + d.data, out_type)


def patch(tf32: Tf32) -> None:
    """Put these dots into the interpreter's builder. Raises ValueError for an unknown tf32 rounding."""
    if tf32 not in ("truncate", "nearest"):
        raise ValueError(f"tf32 must be truncate or nearest, got {tf32!r}")
    dot = _Dot(tf32)
    upstream.InterpreterBuilder.create_dot = lambda self, a, b, d, precision, imprecise: dot(a, b, d, precision)
