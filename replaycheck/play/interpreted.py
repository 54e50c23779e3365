"""What the player uses of the interpreter, where a process runs kernels in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

__all__ = ["bounds_restriction", "interpreting", "launch_recording"]


def interpreting() -> bool:
    """Whether this process runs Triton kernels in the interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def bounds_restriction() -> Callable[[Tensor], None] | None:
    """What limits kernels to the bytes of a view, None outside the interpreter."""
    if not interpreting():
        return None
    from replaycheck.interpreter import bounds

    restrict: Callable[[Tensor], None] = bounds.restrict
    return restrict


def launch_recording() -> AbstractContextManager[list[Any]] | None:
    """A recording of the launches made inside the context, None outside the interpreter."""
    if not interpreting():
        return None
    from replaycheck.interpreter import recorder

    recording: AbstractContextManager[list[Any]] = recorder.record()
    return recording
