"""Formats for the probes: every bit pattern, every halfway point and its neighbours, and an independent rounding toward zero."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class Narrow:
    """A format of 8 or 16 bits under test. saturates: the largest value that larger ones, infinity included, are cast to; 0 where none."""

    torch: torch.dtype
    numpy: np.dtype
    saturates: float = 0.0

    @property
    def bits(self) -> np.dtype:
        return np.dtype(f"uint{8 * self.numpy.itemsize}")

    @property
    def patterns(self) -> NDArray:
        """Every bit pattern."""
        return np.arange(1 << (8 * self.numpy.itemsize), dtype=np.int64).astype(self.bits)

    @property
    def values(self) -> NDArray:
        """Every finite value, ascending, in float64."""
        values = self.patterns.view(self.numpy).astype(np.float64)
        return np.unique(values[np.isfinite(values)])

    def nearest(self, values: NDArray) -> NDArray:
        """Bit patterns of the nearest values, ties to even, by ml_dtypes (numpy for fp16); for fp32 values."""
        inside = np.clip(values, -self.saturates, self.saturates) if self.saturates else values
        return inside.astype(self.numpy).view(self.bits)

    def by_torch(self, values: NDArray) -> NDArray:
        """The same by torch."""
        inside = np.clip(values, -self.saturates, self.saturates) if self.saturates else values
        signed = {1: torch.uint8, 2: torch.int16}[self.numpy.itemsize]
        return torch.from_numpy(np.ascontiguousarray(inside)).to(self.torch).view(signed).numpy().view(self.bits)

    def toward_zero(self, values: NDArray) -> NDArray:
        """Values (float64) cut to the format: the largest magnitude that is not above. Infinity stays, unless the format saturates."""
        grid = self.values[self.values >= 0]
        cut = np.copysign(grid[np.searchsorted(grid, np.minimum(np.abs(values), grid[-1]), side="right") - 1], values)
        return cut if self.saturates else np.where(np.isinf(values), values, cut)


FORMATS = {
    "bf16": Narrow(torch.bfloat16, np.dtype(ml_dtypes.bfloat16)),
    "fp16": Narrow(torch.float16, np.dtype(np.float16)),
    "e4m3": Narrow(torch.float8_e4m3fn, np.dtype(ml_dtypes.float8_e4m3fn), 448.0),
    "e5m2": Narrow(torch.float8_e5m2, np.dtype(ml_dtypes.float8_e5m2), 57344.0),
}


def probes_of(narrow: Narrow) -> dict[str, NDArray]:
    """fp32 values that a cast to the format can get wrong."""
    grid = narrow.values
    halfway = ((grid[1:] + grid[:-1]) / 2).astype(np.float32)
    largest = grid[-1]
    beyond = np.array([largest * f for f in (1.0001, 1.004, 1.02, 1.04, 1.0625, 1.07, 1.2, 1.9)])
    beyond = np.clip(np.concatenate([beyond, -beyond]), -3.4e38, 3.4e38).astype(np.float32)
    return {
        "exact": grid.astype(np.float32),
        "halfway": halfway,
        "above halfway": np.nextafter(halfway, np.float32(np.inf)),
        "below halfway": np.nextafter(halfway, np.float32(-np.inf)),
        "quarters": np.concatenate([(grid[:-1] * f + grid[1:] * (1 - f)).astype(np.float32) for f in (0.25, 0.75)]),
        "overflow": np.concatenate([beyond, np.float32([np.inf, -np.inf, 3.4028235e38, -3.4028235e38])]),
        "zeros": np.float32([0.0, -0.0]),
        "subnormal fp32": np.uint32([1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x7FFFFF, 0x80000001, 0x80018000]).view(np.float32),
        "random patterns": _random_finite(1 << 17),
    }


def _random_finite(count: int) -> NDArray:
    values = np.random.default_rng(7).integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    return values[np.isfinite(values)]


NAN = np.uint32([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF, 0xFF800001]).view(np.float32)


def tensor(values: NDArray, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A torch tensor of numpy values, or of bit patterns seen as `dtype`."""
    copied = np.array(values)
    if dtype is None:
        return torch.from_numpy(copied)
    signed = {1: np.uint8, 2: np.int16, 4: np.int32}[copied.dtype.itemsize]
    return torch.from_numpy(copied.view(signed)).view(dtype)


def bits_of(values: torch.Tensor, narrow: Narrow) -> NDArray:
    signed = {1: torch.uint8, 2: torch.int16}[narrow.numpy.itemsize]
    return values.view(signed).numpy().view(narrow.bits)
