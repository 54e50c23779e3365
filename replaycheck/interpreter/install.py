"""Making this process's interpreter faithful."""

from __future__ import annotations

import os
from typing import Literal

from replaycheck.contract.errors import ReplaycheckError

__all__ = ["TESTED_TRITON", "install"]

#: Releases whose interpreter this package was tested against, bit for bit. Others may differ silently, so they are refused.
TESTED_TRITON = ("3.6.0",)

_installed = False


def install(*, tf32: Literal["truncate", "nearest"] = "truncate") -> None:
    """Patch Triton's interpreter in this process, where TRITON_INTERPRET=1 was set before triton was first imported. May be repeated.

    tf32: what a plain tf32 dot does to fp32 operands; tensor cores of sm_90 truncate.

    Raises ReplaycheckError where triton is not interpreting or not of a tested release, ValueError for an unknown tf32.
    """
    global _installed
    if tf32 not in ("truncate", "nearest"):
        raise ValueError(f"tf32 must be truncate or nearest, got {tf32!r}")
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise ReplaycheckError("the interpreter needs TRITON_INTERPRET=1 in the environment before triton is imported")
    import triton
    import triton.language as tl

    if triton.__version__ not in TESTED_TRITON:
        raise ReplaycheckError(f"the interpreter is tested with triton {', '.join(TESTED_TRITON)}; this is triton {triton.__version__}")
    if type(tl.sum).__name__ != "InterpretedFunction":
        raise ReplaycheckError("triton was imported before TRITON_INTERPRET=1 was set; set it first, in a fresh process")

    from . import access, arithmetic, casts, dots, executor, language, loops, promotion, reductions

    dots.patch(tf32)
    if _installed:
        return
    for part in (casts, arithmetic, access, loops, language, promotion, reductions, executor):
        part.patch()
    _installed = True
