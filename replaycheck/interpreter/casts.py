"""Casts between formats, bit for bit as the device makes them.

The interpreter keeps bf16 as uint16 and fp8 as uint8 bit patterns. Arithmetic on them is done on their exact fp32 values.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton._C.libtriton import ir
from triton.runtime import interpreter as upstream

__all__ = ["decode", "encode", "is_narrow", "numpy_dtype", "patch", "round_to_odd"]

Array = NDArray[Any]

#: Largest finite fp8 values; casts saturate there, infinity included (PTX cvt.rn.satfinite, seen on the device).
_FP8_MAX = {"fp8e4nv": 448.0, "fp8e5": 57344.0}
_FP8_DTYPE = {"fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn), "fp8e5": np.dtype(ml_dtypes.float8_e5m2)}
_FP8_VALUES = {name: np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32) for name, dtype in _FP8_DTYPE.items()}
_FP8_NAN = np.uint8(0x7F)
_BF16_NAN = np.uint16(0x7FFF)
_NARROW = {"bf16", *_FP8_DTYPE}
_NOT_EMULATED = {"fp8e4b15", "fp8e4b8", "fp8e5b16"}

_NUMPY = {
    "int1": np.dtype(bool), "bf16": np.dtype(np.uint16),
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"fp{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{name: np.dtype(np.uint8) for name in (*_FP8_DTYPE, *_NOT_EMULATED)},
}
_POINTER = np.dtype(np.uint64)


def numpy_dtype(triton_type: Any) -> np.dtype[Any]:
    """The numpy dtype the interpreter keeps values of a triton type in; pointers are uint64."""
    scalar = triton_type.scalar
    return _POINTER if scalar.is_ptr() else _NUMPY[scalar.name]


def is_narrow(triton_type: Any) -> bool:
    """Whether values of a scalar triton type are kept as bit patterns. Raises TypeError for fp8 formats that sm_90 does not have."""
    name = triton_type.name
    if name in _NOT_EMULATED:
        raise TypeError(f"format {name} is not emulated; sm_90 has fp8e4nv and fp8e5")
    return name in _NARROW


def decode(data: Array, triton_type: Any) -> Array:
    """The exact fp32 values of narrow bit patterns; values of other types are returned as they are."""
    if not is_narrow(triton_type):
        return data
    if triton_type.name == "bf16":
        return (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    values: Array = _FP8_VALUES[triton_type.name][data]
    return values


def encode(values: Array, triton_type: Any) -> Array:
    """fp32 or fp64 values rounded once, to nearest even, to a floating triton type, as the interpreter keeps it."""
    if not is_narrow(triton_type):
        return values.astype(_NUMPY[triton_type.name])
    single = _to_single_odd(values) if values.dtype == np.float64 else values.astype(np.float32)
    if triton_type.name == "bf16":
        return _bf16_nearest(single)
    limit = _FP8_MAX[triton_type.name]
    patterns = np.clip(single, -limit, limit).astype(_FP8_DTYPE[triton_type.name]).view(np.uint8)
    return np.where(np.isnan(single), _FP8_NAN, patterns)


def _bf16_nearest(values: Array) -> Array:
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    patterns = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    return np.where(nan, _BF16_NAN, patterns) if nan.any() else patterns


def round_to_odd(near: Array, error: Array) -> Array:
    """`near` + `error` rounded to odd in the float dtype of `near`, a nearest rounding of the same sum.

    Rounding it again to a format at least two bits shorter gives the correctly rounded sum. S. Boldo and G. Melquiond,
    Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd, IEEE Trans. Computers 57 (2008).
    """
    bits = near.view(np.uint64 if near.dtype == np.float64 else np.uint32)
    inexact_even = (error != 0) & np.isfinite(near) & np.isfinite(error) & (bits % 2 == 0)
    toward = np.where(error > 0, near.dtype.type(np.inf), near.dtype.type(-np.inf))
    return np.where(inexact_even, np.nextafter(near, toward), near)


def _to_single_odd(values: Array) -> Array:
    """fp64 to fp32, rounded to odd, so that a second rounding to a narrow format is a single rounding."""
    near = values.astype(np.float32)
    # An overflowed value is clearly beyond every narrow format's last midpoint, except bf16's: step back to the largest fp32.
    largest = np.finfo(np.float32).max
    near = np.where(np.isinf(near) & np.isfinite(values), np.copysign(largest, near), near).astype(np.float32)
    return round_to_odd(near, (values - near.astype(np.float64)))


def _toward_zero(values: Array, triton_type: Any) -> Array:
    """fp32 or fp64 values cut to a floating type. Finite values never become infinite."""
    near = encode(values, triton_type)
    wide = decode(near, triton_type).astype(np.float64)
    over = np.abs(wide) > np.abs(values.astype(np.float64))
    patterns = near.view(np.dtype(f"u{near.dtype.itemsize}"))
    return np.where(over, patterns - patterns.dtype.type(1), patterns).view(near.dtype)


def _to_integer(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floating values cut to integers: NaN gives 0 and values out of range the nearest end, as PTX cvt.rzi does."""
    wide = np.dtype(np.int64) if dtype == np.int64 else np.dtype(np.uint64) if dtype == np.uint64 else dtype
    if dtype.itemsize < 4:
        wide = np.dtype(np.int32)
    info = np.iinfo(wide)
    whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.where((whole >= float(info.max)) | (whole <= float(info.min)), 0.0, whole).astype(wide)
    clipped = np.where(whole >= float(info.max), info.max, np.where(whole <= float(info.min), info.min, inside)).astype(wide)
    return clipped.astype(dtype)


def _cast(self: Any, source: Any, target_type: Any) -> Any:
    """Every cast the language makes without a rounding mode."""
    old, new = source.dtype.scalar, target_type.scalar
    data = source.data
    if new.is_floating():
        values = decode(data, old) if old.is_floating() else data.astype(np.float32) if is_narrow(new) else data
        return upstream.TensorHandle(encode(values, new), new)
    if old.is_floating() and numpy_dtype(new).kind in "iu":
        return upstream.TensorHandle(_to_integer(decode(data, old), numpy_dtype(new)), new)
    return upstream.TensorHandle(data.astype(numpy_dtype(new)), new)


def _float_to_float(self: Any, source: Any, target_type: Any, rounding: Any) -> Any:
    """A cast between floating formats with a rounding mode, and every cast from or to fp8."""
    new = target_type.scalar
    values = decode(source.data, source.dtype.scalar)
    cut = rounding == ir.ROUNDING_MODE.RTZ
    return upstream.TensorHandle(_toward_zero(values, new) if cut else encode(values, new), new)


def _bf16_constant(self: Any, value: float) -> Any:
    # Triton prints a bf16 constant with six decimals before it parses it, so that 1e-7 becomes 0 on the device too.
    printed = float(f"{float(np.float32(value)):.6f}")
    return upstream.TensorHandle(encode(np.array([printed]), tl.bfloat16), tl.bfloat16)


def patch() -> None:
    """Put these casts into the interpreter's builder."""
    builder = upstream.InterpreterBuilder
    builder.cast_impl = _cast
    builder.create_fp_to_fp = _float_to_float
    builder.get_bf16 = _bf16_constant
    upstream._get_np_dtype = numpy_dtype
