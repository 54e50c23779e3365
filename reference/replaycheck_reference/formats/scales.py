"""Scales of a stored state: the rule that gives one to a group of elements, on rationals, and the same on float64 tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from .arrays import max_finite, round_stochastic, round_to
from .spec import FORMATS, INTEGERS, Special, decode, decode_integer, encode, encode_integer

__all__ = ["SCALES", "Scaled", "group_codes", "group_scale", "scales", "stored"]

#: Which elements of a state [..., head_dim, state_dim] share a scale, and how it is chosen.
SCALES = (
    "none",      # none is stored: codes are values
    "row",       # one a row of head_dim: fp32(amax / largest)
    "head",      # one a head: fp32(amax / largest)
    "mx",        # one a block of 32 neighbours of a row: the power of two 2^(floor(log2 amax) - emax) (OCP microscaling)
    "nvfp4",     # one a block of 16: e4m3, times an fp32 a head that brings the largest of them to 448
)
_BLOCK = {"mx": 32, "nvfp4": 16}
_SMALLEST = 2.0**-126


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A stored state, exact in float64: codes (values of the format) and scales, broadcast against each other; values is their product."""

    codes: Tensor
    scale: Tensor

    @property
    def values(self) -> Tensor:
        return self.codes * self.scale


def group_scale(values: Sequence[Fraction | Special], name: str) -> Fraction | Special:
    """The fp32 scale of one group of a "row" or "head": amax / largest, rounded to nearest.

    A group that holds NaN or infinity has scale NaN, so that all of it reads as NaN. A scale that would be below the smallest normal fp32
    number, that of zeros too, is 1.
    """
    if any(v in (Special.NAN, Special.POSITIVE_INFINITY, Special.NEGATIVE_INFINITY) for v in values):
        return Special.NAN
    amax = max(abs(v) for v in values if isinstance(v, Fraction)) if any(isinstance(v, Fraction) for v in values) else Fraction(0)
    scale = decode(encode(amax / Fraction(max_finite(name)), FORMATS["fp32"]), FORMATS["fp32"])
    return scale if isinstance(scale, Fraction) and scale >= Fraction(2) ** -126 else Fraction(1)


def group_codes(values: Sequence[Fraction | Special], name: str, scale: Fraction | Special, *, rounding: str = "nearest") -> list[Fraction]:
    """The code values of one group on the grid of `scale`, saturating; zeros where the scale is NaN."""
    if isinstance(scale, Special):
        return [Fraction(0)] * len(values)
    steps = [Fraction(0) if isinstance(v, Special) else v / scale for v in values]
    return [_code(step, name, rounding) for step in steps]


def _code(step: Fraction, name: str, rounding: str) -> Fraction:
    if name in INTEGERS:
        return Fraction(decode_integer(encode_integer(step, name, rounding=rounding), name))
    found = decode(encode(step, FORMATS[name], rounding=rounding, overflow="saturate"), FORMATS[name])
    return Fraction(0) if isinstance(found, Special) else found


def scales(values: Tensor, name: str, scale: str) -> Tensor:
    """The scales that the rule gives to `values` [..., head_dim, state_dim]: float64, broadcastable against them.

    A group that holds NaN or infinity has scale NaN, a group of zeros (or of values too small for a normal fp32 scale) has scale 1.
    Raises ValueError naming a rule or a format it cannot go with.
    """
    _check(values, name, scale)
    if scale == "none":
        return torch.ones_like(values[..., :1, :1])
    if scale in ("row", "head"):
        amax = values.abs().amax(-1, keepdim=True)      # torch's maximum hands NaN on
        return _usable(_single((amax if scale == "row" else amax.amax(-2, keepdim=True)) / max_finite(name)))
    amax = values.abs().reshape(*values.shape[:-1], -1, _BLOCK[scale]).amax(-1)
    found = _microscale(amax, name) if scale == "mx" else _two_level(amax, name)
    return found.repeat_interleave(_BLOCK[scale], -1)


def stored(values: Tensor, name: str, *, scale: str = "none", rounding: str = "nearest", overflow: str = "infinite",
           words: Tensor | None = None, bits: int = 32, given: Tensor | None = None) -> Scaled:
    """`values` [..., head_dim, state_dim] as a state stored in `name` holds them.

    scale: one of SCALES; codes of scaled formats saturate. rounding: one of ROUNDINGS, or "stochastic", which takes `words` and `bits` as
    `round_stochastic` does. given: scales to use instead of the rule's. Quotients are correctly rounded where values and scales are fp32.
    """
    factor = scales(values, name, scale) if given is None else given
    usable = torch.where(factor.isfinite(), factor, 1.0)
    steps = values / usable if scale != "none" else values
    if scale != "none":
        overflow = "saturate"
        steps = torch.where(factor.isfinite(), steps, 0.0)
    if rounding != "stochastic":
        codes = round_to(steps, name, rounding=rounding, overflow=overflow)
    elif words is None:
        raise ValueError("rounding 'stochastic' needs words")
    else:
        codes = round_stochastic(steps, name, words, bits=bits, overflow=overflow)
    return Scaled(codes=codes, scale=factor)


def _check(values: Tensor, name: str, scale: str) -> None:
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    if scale == "none" and name in INTEGERS:
        raise ValueError(f"format {name!r} needs a scale, got scale 'none'")
    if scale == "nvfp4" and name != "fp4_e2m1":
        raise ValueError(f"scale 'nvfp4' goes with format fp4_e2m1, got {name!r}")
    if scale in _BLOCK and values.shape[-1] % _BLOCK[scale]:
        raise ValueError(f"scale {scale!r} needs a state dim that is a multiple of {_BLOCK[scale]}, got {values.shape[-1]}")


def _single(values: Tensor) -> Tensor:
    return round_to(values, "fp32")


def _usable(scale: Tensor) -> Tensor:
    scale = torch.where(scale.isfinite(), scale, torch.nan)
    return torch.where(scale < _SMALLEST, 1.0, scale)


def _microscale(amax: Tensor, name: str) -> Tensor:
    largest = INTEGERS[name] - 2 if name in INTEGERS else FORMATS[name].emax
    exponent = torch.frexp(amax).exponent - 1 - largest        # floor(log2 amax) less emax
    power = torch.ldexp(torch.ones_like(amax), exponent.clamp(-127, 127))
    return torch.where(amax.isfinite(), torch.where(amax == 0, 1.0, power), torch.nan)


def _two_level(amax: Tensor, name: str) -> Tensor:
    whole = amax.amax((-2, -1), keepdim=True)
    outer = _usable(_single(whole / (max_finite("fp8_e4m3") * max_finite(name))))
    inner = round_to(amax / max_finite(name) / outer, "fp8_e4m3", overflow="saturate")
    # a block whose scale would be zero has the smallest there is
    inner = torch.where(inner == 0, 2.0**-9, inner)
    return inner * outer
