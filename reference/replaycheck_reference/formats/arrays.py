"""Number formats on float64 tensors: rounding, spacing and limits, element by element, on any device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .spec import OVERFLOWS, ROUNDINGS, format_of

__all__ = [
    "TORCH_DTYPE", "format_name", "max_finite", "round_to", "smallest_normal", "smallest_subnormal", "ulp", "unit",
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
    return float(format_of(name).max_finite)


def ulp(values: Tensor, name: str) -> Tensor:
    """Spacing of the format at |values|: float64, same shape.

    At a power of two it is the spacing above. Below the smallest normal number it is the smallest subnormal, beyond the largest finite
    one the spacing of the largest binade; NaN gives NaN. Raises ValueError where `values` is not float64.
    """
    fmt = format_of(name)
    exponent = _exponent(values).clamp(fmt.emin, fmt.emax)
    return torch.where(values.isnan(), values, _power_of_two(exponent - fmt.fraction_bits))


def round_to(values: Tensor, name: str, *, rounding: str = "nearest", overflow: str = "infinite") -> Tensor:
    """Values of the format, correctly rounded from float64 once: float64, same shape.

    rounding: "nearest" (ties to even), "nearest_away" (ties away from zero) or "truncate" (toward zero). overflow: "infinite" (NaN in a
    format that has no infinity) or "saturate" (infinity becomes the largest finite value too). NaN stays NaN, zeros keep their sign.
    Raises ValueError where `values` is not float64, or naming an unknown format, rounding or overflow.
    """
    fmt = format_of(name)
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    if overflow not in OVERFLOWS:
        raise ValueError(f"overflow must be one of {', '.join(OVERFLOWS)}, got {overflow!r}")
    exponent = _exponent(values).clamp(min=fmt.emin)
    if name == "fp64":
        rounded = values
    else:
        spacing = _power_of_two(exponent - fmt.fraction_bits)
        rounded = torch.where(values.isinf(), values, _ROUND[rounding](values / spacing) * spacing)  # both exact: powers of two
    return _overflowed(rounded, values, name, rounding, overflow)


def _overflowed(rounded: Tensor, values: Tensor, name: str, rounding: str, overflow: str) -> Tensor:
    fmt = format_of(name)
    largest = float(fmt.max_finite)
    saturated = torch.copysign(torch.full_like(rounded, largest), rounded)
    if overflow == "saturate":
        beyond = saturated
    else:
        beyond = torch.copysign(torch.full_like(rounded, torch.inf if fmt.has_infinity else torch.nan), rounded)
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
    if values.dtype != torch.float64:
        raise ValueError(f"values must be float64, got {values.dtype}")
    return ((values.contiguous().view(torch.int64) >> 52) & 0x7FF) - 1023


def _power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent built from bits, as pow and ldexp are not exact for every exponent: float64; -1074 <= exponent <= 1023."""
    normal = (exponent + 1023) << 52
    subnormal = torch.ones_like(exponent) << (exponent + 1074).clamp(0, 51)
    return torch.where(exponent >= -1022, normal, subnormal).view(torch.float64)
