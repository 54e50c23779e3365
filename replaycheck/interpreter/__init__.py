"""Triton's interpreter made faithful from outside: right casts and sums, refused out-of-bounds access, recorded launches.

`install` patches triton in this process; kernels know nothing of it. `bounds` and `recorder` import no triton.
"""

from __future__ import annotations

from . import bounds, recorder
from .bounds import OutOfBounds
from .install import TESTED_TRITON, install

__all__ = ["TESTED_TRITON", "OutOfBounds", "bounds", "install", "recorder"]
