"""The guarantee "rounding": how stored and output values were rounded, from elements whose exact value leaves no doubt."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy import stats
from torch import Tensor

from replaycheck_reference.formats.arrays import round_to, ulp
from replaycheck_reference.policy import Storage

from ...verdict.measurement import Measurement
from .batches import Batch, Residual

__all__ = ["rounding_measurements"]

#: Chance of a right kernel being flagged, per measurement.
_ALARM = 1e-9
#: An element tells the rounding mode where its budget before rounding is below this share of an ulp.
_SHARP = 1 / 16


def rounding_measurements(judged: Sequence[Batch]) -> list[Measurement]:
    """Shares of outputs and of stored elements that are not the correctly rounded exact value, against what the budgets predict."""
    outputs = [(b.outputs, b.policy.output) for b in judged]
    ends = [(b.end, b.policy.state) for b in judged if b.end is not None]
    found = [_share(what, pairs) for what, pairs in (("output", outputs), ("state", ends)) if pairs]
    return [m for m in found if m is not None]


def _share(what: str, pairs: Sequence[tuple[Residual, Storage]]) -> Measurement | None:
    storage = pairs[0][1]
    if storage.rounding != "nearest":
        return None
    counted = [_count(residual, storage) for residual, _ in pairs]
    sharp, wrong, expected, over = (sum(c[i] for c in counted) for i in range(4))
    if sharp == 0:
        return None
    allowed = float(stats.poisson.isf(_ALARM, expected)) if expected > 0 else 0.0
    share = over / sharp
    diagnosis = f"{100 * share:.1f} % of them lie more than half an ulp away: {_mode(share)}" if wrong > allowed else ""
    return Measurement(
        guarantee="rounding", value=float(wrong), budget=allowed, unit="elements",
        derivation=f"expected {expected:.1f} of {sharp:.0f} {what} elements, each with chance 2 * budget / ulp; Poisson tail {_ALARM:g}",
        place={"what": what, "format": storage.format}, diagnosis=diagnosis,
        facts={"elements": int(sharp), "not correctly rounded": int(wrong), "predicted at most": expected, "over half an ulp": share},
    )


def _count(residual: Residual, storage: Storage) -> tuple[float, float, float, float]:
    """Of the sharp elements: how many, how many not correctly rounded, how many could be at most on average, how many off by > half an ulp."""
    step = ulp(residual.exact.abs(), storage.format)
    sharp = (residual.budget < _SHARP * step) & torch.isfinite(residual.seen)
    right = round_to(residual.exact, storage.format, overflow=storage.overflow)
    wrong = sharp & (residual.seen != right)
    chance = torch.clamp(2 * residual.budget / step, max=1.0)
    over = sharp & (residual.error > step / 2 + residual.budget)
    return _total(sharp), _total(wrong), float(chance[sharp].sum()), _total(over)


def _total(mask: Tensor) -> float:
    return float(mask.sum())


def _mode(share: float) -> str:
    if share > 0.35:
        return "truncation, where rounding to nearest is claimed"
    if share > 0.15:
        return "stochastic rounding, where rounding to nearest is claimed"
    return "rounded twice, or from a less precise value"
