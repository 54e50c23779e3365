"""How a state is stored: format, rounding, period; and what storing does to values, fast enough for 10^9 of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck_reference.formats.arrays import max_finite
from replaycheck_reference.formats.spec import format_of

__all__ = ["FORMATS", "ROUNDINGS", "ROW", "Storage", "store"]

#: Elements that share a scale: the columns of a row of a state.
ROW = 256
#: By name, bytes of an element. fp8_e4m3 and int8 have a scale a row, taken anew from the row's largest modulus at every store.
FORMATS = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "int8": 1}
#: To the nearest, ties to even; toward zero; away from zero with the probability of the fraction.
ROUNDINGS = ("nearest", "truncate", "stochastic")
_SCALED = ("fp8_e4m3", "int8")
_EXPONENT = 0x7FF0_0000_0000_0000
_SMALLEST_SCALE = 2.0**-126


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A storage policy: the state is rounded to `format` by `rounding` after every `period` tokens, and is exact in between.

    Raises ValueError naming the field and the value.
    """

    format: str
    rounding: str = "nearest"
    period: int = 1

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {self.format!r}")
        if self.rounding not in ROUNDINGS:
            raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {self.rounding!r}")
        if self.period < 1:
            raise ValueError(f"period must be at least 1, got {self.period}")

    @property
    def scaled(self) -> bool:
        """Whether a row has a scale of its own."""
        return self.format in _SCALED

    @property
    def top(self) -> float:
        """The largest finite code; where rows are scaled, the one that the largest modulus of a row is scaled to."""
        return max_finite(self.format)

    @property
    def bytes(self) -> float:
        """Of an element, its share of a scale included."""
        return FORMATS[self.format] + (4 / ROW if self.scaled else 0)

    @property
    def label(self) -> str:
        return f"{self.format} {self.rounding} L={self.period}"

    def spacing(self, codes: Tensor) -> Tensor:
        """The distance of neighbouring codes at float64 codes: same shape."""
        if self.format == "int8":
            return torch.ones_like(codes)
        fmt = format_of(self.format)
        return _binade(codes).clamp_(min=2.0**fmt.emin).mul_(2.0**-fmt.fraction_bits)


def store(values: Tensor, storage: Storage, dither: Tensor | None = None) -> Tensor:
    """What is read back of float64 values [..., columns] after a store: float64, same shape.

    It is `formats.scales.stored` with one scale a row, or none, for finite values; beyond the largest finite code they saturate. dither: of
    stochastic rounding, uniform in [0, 1), shaped like values.
    """
    if not storage.scaled:
        return _coded(values, storage, dither)
    scale = (values.abs().amax(-1, keepdim=True) / storage.top).to(torch.float32).to(torch.float64)
    scale = torch.where(scale < _SMALLEST_SCALE, 1.0, scale)
    return _coded(values / scale, storage, dither).mul_(scale)


def _coded(steps: Tensor, storage: Storage, dither: Tensor | None) -> Tensor:
    spacing = storage.spacing(steps)
    return _whole(steps / spacing, storage.rounding, dither).mul_(spacing).clamp_(-storage.top, storage.top)


def _binade(values: Tensor) -> Tensor:
    """The power of two at or below |v|, from the bits."""
    return (values.contiguous().view(torch.int64) & _EXPONENT).view(torch.float64)


def _whole(steps: Tensor, rounding: str, dither: Tensor | None) -> Tensor:
    if rounding == "nearest":
        return steps.round_()
    if rounding == "truncate":
        return steps.trunc_()
    if dither is None:
        raise ValueError("rounding 'stochastic' needs dither")
    return torch.copysign(steps.abs().add_(dither).floor_(), steps)
