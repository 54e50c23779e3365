"""A Triton step that reads one element behind its state pool, for a worker; the right kernel but for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl

from replaycheck.faults.base import STEP
from replaycheck.faults.host import StepSession

__all__ = ["kernel"]


@triton.jit  # type: ignore[untyped-decorator]
def _peek(pool, seen, count):  # type: ignore[no-untyped-def]
    tl.store(seen, tl.load(pool + count))


class _Session(StepSession):
    def run(self, layer: int, tokens: Any, out: Any) -> None:
        super().run(layer, tokens, out)
        _peek[(1,)](self.states[layer], torch.zeros(1), self.states[layer].numel())


kernel = replace(STEP, session=_Session)
