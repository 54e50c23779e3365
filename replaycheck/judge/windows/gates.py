"""The guarantee "gates": fitted effective decays and token weights within the policy's own gate terms.

A gate error is the same for a whole head, so least squares over the head sees it far below any element's budget. What a fit cannot
tell from a gate error is allowed for: roundings that a row or column shares, in full; scattered roundings at eight of their standard
deviations, as if uniform over their budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.formats.arrays import unit

from .batches import Batch
from .fields import Fit, field_names, fit

__all__ = ["DEVIATIONS", "gate_measurement"]

#: Standard deviations allowed to scattered roundings: one alarm in 1e15 fits of a right kernel, were they normal.
DEVIATIONS = 8.0
#: Elements of the fields held at once.
_ELEMENTS = 1 << 22
_DERIVATION = "the claimed policy's gate error and biased sums, those a row or column shares, 8 standard deviations of scattered ones"


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    """Coefficients [windows, units, fields] of some windows, what each is held to, the part that is the policy's gate term, of what
    kinds a token has one each, and how many units a head has.
    """

    windows: tuple[Window, ...]
    coefficients: Tensor
    budget: Tensor
    gate: Tensor
    kinds: tuple[str, ...]
    channels: int

    def ratio(self) -> Tensor:
        """|coefficient| / budget; a residual that is not finite leaves nothing to fit and is the state's finding."""
        ratio = self.coefficients.abs() / self.budget
        return torch.where(torch.isnan(ratio), 0.0, ratio)


def gate_measurement(judged: Sequence[Batch]) -> Measurement | None:
    """The worst fitted coefficient of all published states; None where the store is narrower than fp32 or nothing was published.

    A narrow store rounds a slowly decaying state back to itself: its residual follows the state, and no fit can tell that from a gate.
    """
    told = [b for b in judged if b.end is not None and b.bound.shares.told and unit(b.policy.state.format) <= unit("fp32")]
    fitted = [f for b in told for f in _fit(b)]
    if not fitted:
        return None
    worst = max(fitted, key=lambda f: float(f.ratio().max()))
    flat = int(worst.ratio().argmax())
    at = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), worst.coefficients.shape))
    window, (head, channel), field = worst.windows[at[0]], divmod(at[1], worst.channels), at[2]
    value, budget = float(worst.coefficients[at].abs()), float(worst.budget[at])
    what = field_names(worst.kinds, len(window.paths))[field]
    place: dict[str, int | str] = {
        "request": window.request, "slot": window.slot, "layer": window.layer, "step": window.steps[-1], "head": head, "coefficient": what,
    }
    if worst.channels > 1:
        place["channel"] = channel
    coefficient = float(worst.coefficients[at])
    diagnosis = f"{what} is off by {coefficient:+.2e} (2^{math.log2(value):.1f}) of itself" if value > budget else ""
    return Measurement(
        guarantee="gates", value=value, budget=budget, unit="relative", derivation=_DERIVATION, place=place, got=1 + coefficient, exact=1.0,
        diagnosis=diagnosis, facts={"coefficients": sum(f.coefficients.numel() for f in fitted), "implied bits": _implied(fitted)},
    )


def _fit(batch: Batch) -> list[_Fitted]:
    """Fits of one batch, a bounded number of windows at a time."""
    shape = batch.terms.start.shape
    each = shape[-3] * shape[-2] * shape[-1] * (len(batch.terms.unit_kinds()) * len(batch.paths) + 1)
    room = max(1, _ELEMENTS // each)
    return [_fit_some(batch, slice(first, first + room)) for first in range(0, len(batch.windows), room)]


def _fit_some(batch: Batch, some: slice) -> _Fitted:
    assert batch.end is not None
    terms, shares, end = batch.terms, batch.bound.shares, batch.end
    solved = fit(terms.unit_fields()[some], terms.units((end.seen - end.exact)[some]))
    gate = _gate(solved, shares.allowed[some])
    together = shares.together(solved.rows, some)
    variance = shares.variance(solved.rows, some)
    scattered = _scatter(solved, variance, terms.units((shares.scattered + end.rounding)[some]), terms.units(end.exact[some]))
    budget = gate + together + DEVIATIONS * scattered
    known = solved.known & torch.isfinite(gate)
    return _Fitted(
        windows=batch.windows[some], coefficients=torch.where(known, solved.coefficients, 0.0),
        budget=torch.where(known, budget, torch.inf), gate=torch.where(known, gate, torch.inf),
        kinds=terms.unit_kinds(), channels=solved.known.shape[-2] // batch.layer.heads,
    )


def _gate(solved: Fit, allowed: Tensor) -> Tensor:
    """What the policy's gate errors can put into each coefficient; a field that is zero has no gate to speak of."""
    known = solved.known
    return (solved.mixing.abs() @ torch.where(known, allowed, 0.0)[..., None])[..., 0]


def _scatter(solved: Fit, variance: Tensor, scattered: Tensor, exact: Tensor) -> Tensor:
    """Standard deviation that scattered roundings, uniform over their budget, put into each coefficient beside a `variance`.

    Equal values round equally, so only as many roundings are independent as the state has different values.
    """
    variance = variance + (solved.rows**2 @ (scattered**2)[..., None])[..., 0] / 3
    ordered = exact.sort(-1).values
    different = (ordered[..., 1:] != ordered[..., :-1]).sum(-1) + 1
    together = exact.shape[-1] / different
    return (variance * together[..., None]).sqrt()


def _implied(fitted: Sequence[_Fitted]) -> dict[str, float | None]:
    """Significand bits the worst effective decay and token weight have, over fits that could tell 2^-15."""
    bits: dict[str, float | None] = {"decay": None, "weight": None}
    for name, columns in (("decay", slice(0, 1)), ("weight", slice(1, None))):
        seen = [f.coefficients[..., columns].abs()[(f.budget - f.gate)[..., columns] < 2.0**-15] for f in fitted]
        largest = max((float(s.max()) for s in seen if s.numel()), default=0.0)
        if largest > 0:
            bits[name] = round(-math.log2(largest), 1)
    return bits
