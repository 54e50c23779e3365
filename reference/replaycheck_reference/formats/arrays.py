"""Number formats on float64 tensors: rounding, spacing and limits, element by element, on any device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .spec import INTEGERS, OVERFLOWS, ROUNDINGS, format_of

__all__ = [
    "CODE_DTYPE", "TORCH_DTYPE", "format_name", "max_finite", "round_stochastic", "round_to", "smallest_normal", "smallest_subnormal",
    "ulp", "unit",
]

#: Formats that torch can hold, by name.
TORCH_DTYPE = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}

#: What codes of a stored state may be held in: the formats above and integers, which mean something beside a scale only.
CODE_DTYPE = {**TORCH_DTYPE, "int8": torch.int8, "int16": torch.int16}


def format_name(dtype: torch.dtype) -> str:
    """The name of a torch dtype. Raises ValueError naming a dtype that is no known format."""
    for name, known in TORCH_DTYPE.items():
        if known == dtype:
            return name
    raise ValueError(f"dtype must be one of {', '.join(map(str, TORCH_DTYPE.values()))}, got {dtype}")


def unit(name: str) -> float:
    """Unit roundoff of rounding to nearest: 2^-precision, relative."""
    return 2.0 ** -format_of(name).precision


def smallest_normal(name: str) -> float:
    return float(format_of(name).smallest_normal)


def smallest_subnormal(name: str) -> float:
    return float(format_of(name).smallest_subnormal)


def max_finite(name: str) -> float:
    """The largest finite value; of integers the largest that is stored."""
    if name in INTEGERS:
        return 2.0 ** (INTEGERS[name] - 1) - 1
    return float(format_of(name).max_finite)


def ulp(values: Tensor, name: str) -> Tensor:
    """Spacing of the format at |values|: float64, same shape.

    At a power of two it is the spacing above. Below the smallest normal number it is the smallest subnormal, beyond the largest finite
    one the spacing of the largest binade; NaN gives NaN. Of integers it is one. Raises ValueError where `values` is not float64.
    """
    if name in INTEGERS:
        return torch.where(_float64(values).isnan(), values, 1.0)
    fmt = format_of(name)
    exponent = _exponent(values).clamp(fmt.emin, fmt.emax)
    return torch.where(values.isnan(), values, _power_of_two(exponent - fmt.fraction_bits))


def round_to(values: Tensor, name: str, *, rounding: str = "nearest", overflow: str = "infinite") -> Tensor:
    """Values of the format, correctly rounded from float64 once: float64, same shape.

    rounding: "nearest" (ties to even), "nearest_away" (ties away from zero) or "truncate" (toward zero). overflow: "infinite" (NaN in a
    format that has no infinity) or "saturate" (infinity becomes the largest finite value too). NaN stays NaN, zeros keep their sign.
    Integers, and formats without NaN, saturate. Raises ValueError where `values` is not float64, or naming an unknown format, rounding
    or overflow.
    """
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    if name == "fp64":
        return _float64(values)
    spacing = _spacing(values, name)
    rounded = torch.where(values.isinf(), values, _ROUND[rounding](values / spacing) * spacing)  # both exact: powers of two
    return _overflowed(rounded, values, name, rounding, overflow)


def round_stochastic(values: Tensor, name: str, words: Tensor, *, bits: int = 32, overflow: str = "infinite") -> Tensor:
    """Values of the format, the next below in magnitude, or above where words / 2^bits carries the fraction to one: float64, same shape.

    words: int64 in 0 .. 2^bits - 1, one an element; where they are uniform, up is taken with probability floor(2^bits fraction) / 2^bits.
    NaN stays NaN, zeros keep their sign, overflow is that of `round_to`. Raises ValueError naming bits or a dtype that cannot be taken.
    """
    if not 1 <= bits <= 32:
        raise ValueError(f"bits must be in 1 .. 32, got {bits}")
    if words.dtype != torch.int64:
        raise ValueError(f"words must be int64, got {words.dtype}")
    spacing = _spacing(values, name)
    steps = values.abs() / spacing
    whole = steps.floor()
    up = (steps - whole) >= 1 - words.to(torch.float64) * 2.0**-bits   # exact on both sides
    rounded = torch.where(values.isfinite(), torch.copysign((whole + up) * spacing, values), values)
    return _overflowed(rounded, values, name, "stochastic", overflow)


def _spacing(values: Tensor, name: str) -> Tensor:
    """Spacing of the format at |values|, beyond its largest number that of the binade the value is in: float64."""
    if name in INTEGERS:
        return torch.ones_like(_float64(values))
    fmt = format_of(name)
    return _power_of_two(_exponent(values).clamp(min=fmt.emin) - fmt.fraction_bits)


def _overflowed(rounded: Tensor, values: Tensor, name: str, rounding: str, overflow: str) -> Tensor:
    if overflow not in OVERFLOWS:
        raise ValueError(f"overflow must be one of {', '.join(OVERFLOWS)}, got {overflow!r}")
    largest = max_finite(name)
    saturated = torch.copysign(torch.full_like(rounded, largest), rounded)
    if overflow == "saturate" or name in INTEGERS or not format_of(name).has_nan:
        beyond = saturated
    else:
        beyond = torch.copysign(torch.full_like(rounded, torch.inf if format_of(name).has_infinity else torch.nan), rounded)
        if rounding == "truncate":
            beyond = torch.where(values.isinf(), beyond, saturated)
    return torch.where(rounded.abs() > largest, beyond, rounded)


def _ties_away(steps: Tensor) -> Tensor:
    whole = steps.trunc()
    # not floor(|steps| + 1/2): the sum rounds 1/2 - 2^-54 up to 1
    return torch.copysign(whole.abs() + ((steps - whole).abs() >= 0.5).to(steps.dtype), steps)


_ROUND: dict[str, Callable[[Tensor], Tensor]] = {"nearest": torch.round, "nearest_away": _ties_away, "truncate": torch.trunc}


def _exponent(values: Tensor) -> Tensor:
    """e with 2^e <= |v| < 2^(e+1), read from the bits: int64; -1023 for zero and float64 subnormals, 1024 for infinity and NaN."""
    return ((_float64(values).contiguous().view(torch.int64) >> 52) & 0x7FF) - 1023


def _float64(values: Tensor) -> Tensor:
    if values.dtype != torch.float64:
        raise ValueError(f"values must be float64, got {values.dtype}")
    return values


def _power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent built from bits, as pow and ldexp are not exact for every exponent: float64; -1074 <= exponent <= 1023."""
    normal = (exponent + 1023) << 52
    subnormal = torch.ones_like(exponent) << (exponent + 1074).clamp(0, 51)
    return torch.where(exponent >= -1022, normal, subnormal).view(torch.float64)
