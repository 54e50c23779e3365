"""Numbers that a kernel is handed: fp32 bits, so that the reference and the kernel mean the same."""

from __future__ import annotations

import struct
from math import inf

__all__ = ["as_fp32", "is_fp32"]


def as_fp32(value: float) -> float:
    """The fp32 number nearest to value, infinite beyond all."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return inf


def is_fp32(value: object) -> bool:
    """Whether value is a number that fp32 holds exactly."""
    return type(value) in (int, float) and as_fp32(float(value)) == value and abs(float(value)) < inf  # type: ignore[arg-type]
