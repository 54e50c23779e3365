"""The guarantee "rounding": how stored and output values were rounded, from elements whose exact value leaves no doubt."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.formats.arrays import round_to, ulp
from replaycheck_reference.policy import Storage

from .batches import Batch, Residual

__all__ = ["rounding_measurements"]

#: An element tells the rounding mode where its budget before rounding is below this share of an ulp.
_SHARP = 1 / 16


def rounding_measurements(judged: Sequence[Batch]) -> list[Measurement]:
    """Outputs and stored elements that are not the correctly rounded exact value, against how many may go either way."""
    outputs = [(b.outputs, b.policy.output) for b in judged]
    ends = [(b.end, b.policy.state) for b in judged if b.end is not None]
    found = [_share(what, pairs) for what, pairs in (("output", outputs), ("state", ends)) if pairs]
    return [m for m in found if m is not None]


def _share(what: str, pairs: Sequence[tuple[Residual, Storage]]) -> Measurement | None:
    storage = pairs[0][1]
    if storage.rounding != "nearest":
        return None
    counts = torch.tensor([_count(residual, storage) for residual, _ in pairs]).sum(0).tolist()
    sharp, wrong, open_, over, far = (int(c) for c in counts)
    if sharp == 0:
        return None
    share = over / sharp
    diagnosis = ""
    if wrong > open_ and 2 * far > wrong:
        diagnosis = f"{100 * far / sharp:.1f} % of them lie more than a whole ulp away: no rounding does that, they were wrong before it"
    elif wrong > open_:
        diagnosis = f"{100 * share:.1f} % of them lie more than half an ulp away: {_mode(share)}"
    return Measurement(
        guarantee="rounding", value=float(wrong), budget=float(open_), unit="elements",
        derivation=f"of {sharp} {what} elements, {open_} have an exact value within its budget of a tie and may be rounded either way",
        place={"what": what, "format": storage.format}, diagnosis=diagnosis,
        facts={"elements": sharp, "not correctly rounded": wrong, "either way": open_, "over half an ulp": share},
    )


def _count(residual: Residual, storage: Storage) -> tuple[int, int, int, int, int]:
    """Of the sharp elements: how many, how many not correctly rounded, may go either way, are off by more than half an ulp, and by one."""
    step = ulp(residual.exact.abs(), storage.format)
    sharp = (residual.budget < _SHARP * step) & torch.isfinite(residual.seen)
    right = round_to(residual.exact, storage.format, overflow=storage.overflow)
    wrong = sharp & (residual.seen != right)
    to_tie = step / 2 - (residual.exact - right).abs()
    either = sharp & (to_tie <= residual.budget)
    over = sharp & (residual.error > step / 2 + residual.budget)
    far = sharp & (residual.error > step + residual.budget)
    return tuple(int(mask.sum()) for mask in (sharp, wrong, either, over, far))  # type: ignore[return-value]


def _mode(share: float) -> str:
    if share > 0.35:
        return "truncation, where rounding to nearest is claimed"
    if share > 0.15:
        return "stochastic rounding, where rounding to nearest is claimed"
    return "rounded twice, or from a less precise value"
