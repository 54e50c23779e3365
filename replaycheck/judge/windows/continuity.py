"""The guarantee "continuity" on windows alone: each starts from the bits with which the one before it ended."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from replaycheck.contract.bits import as_bits
from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement

__all__ = ["continuity_measurement"]

_DERIVATION = "a window starts from the bits published at the end of the one before it"


def continuity_measurement(windows: Sequence[Window]) -> Measurement | None:
    """State elements whose bits changed between two windows of a request; None where no two windows follow one another.

    A player carries the bits itself and has nothing to find here: this is for windows that somebody else dumped.
    """
    ended = {(w.request, w.layer, w.position + len(w.tokens)): w for w in windows if w.end is not None}
    pairs = [(ended[w.request, w.layer, w.position], w) for w in windows if (w.request, w.layer, w.position) in ended]
    if not pairs:
        return None
    changed = [(int(_differs(before, after).sum()), after) for before, after in pairs]
    total, (count, first) = sum(c for c, _ in changed), next((c for c in changed if c[0]), changed[0])
    diagnosis = f"{count} element(s) of the state changed between two windows of request {first.request}" if count else ""
    return Measurement(
        guarantee="continuity", value=float(total), budget=0.0, unit="elements", derivation=_DERIVATION, diagnosis=diagnosis,
        place={"request": first.request, "slot": first.slot, "layer": first.layer, "token": first.position} if count else {},
        facts={"pairs": len(pairs)},
    )


def _differs(before: Window, after: Window) -> Tensor:
    assert before.end is not None
    if before.end.dtype != after.start.dtype:
        return torch.ones(after.start.shape, dtype=torch.bool)
    return as_bits(before.end) != as_bits(after.start)
