"""Loads and stores of tiles that may reach past the end of a dim.

WHOLE says, when a kernel is built, that nothing does: then there is no mask at all, in the program as in its bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["load", "store"]


@triton.jit
def load(at, inside, WHOLE: tl.constexpr):
    """What lies at the pointers `at`; zero where not `inside`."""
    if WHOLE:
        value = tl.load(at)
    else:
        value = tl.load(at, mask=inside, other=0.0)
    return value


@triton.jit
def store(at, value, inside, WHOLE: tl.constexpr):
    """Store at the pointers `at` that are `inside`."""
    if WHOLE:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=inside)
