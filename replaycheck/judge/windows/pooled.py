"""The guarantee "gates" on outputs: the effective decay of the start state, pooled over every output of a path.

One output has too few rows to tell a small gate error from its roundings; a gate error that always has the same sign adds up over
many. Each output's rows are fitted on the decayed readout and on every token's weighted score, whose own errors stay in their fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.policy import Path, Policy

from .batches import Batch
from .fields import fit
from .gates import DEVIATIONS

__all__ = ["pooled_decay_measurements"]

#: Rows an output must have for each field fitted.
_ROWS_A_FIELD = 3
#: Outputs, counted by their weights, from which their own scatter tells the noise of their mean.
_ENOUGH = 40
#: Products and sums whose errors have no preferred sign.
_UNBIASED = ("fp32", "fp64")
_BOUNDED = "mean of the claimed policy's gate error, and 8 standard deviations of the pooled roundings, uniform over their budget"
_SCATTERED = "mean of the claimed policy's gate error, and 8 standard errors of the pooled mean"


@dataclass(frozen=True, kw_only=True)
class _Outputs:
    """Fits of one path's outputs, flat: error of the decay, the policy's gate term, and the variance that budgets allow."""

    coefficient: Tensor
    gate: Tensor
    variance: Tensor


def pooled_decay_measurements(judged: Sequence[Batch]) -> list[Measurement]:
    """One measurement a path: the weighted mean error of the decay that outputs show. Paths with too few rows are left out."""
    fitted: dict[str, list[_Outputs]] = {}
    for batch in judged:
        fields, each = batch.terms.output_fields(), len(batch.terms.field_kinds())
        for token, path in enumerate(batch.paths):
            count = 1 + each * (token + 1)
            if batch.layer.head_dim >= _ROWS_A_FIELD * count:
                fitted.setdefault(path, []).append(_fitted(batch, token, fields[:, token, :, :count]))
    policy = judged[0].policy if judged else Policy()
    return [m for path, parts in sorted(fitted.items()) if (m := _measurement(path, parts, policy.paths[path])) is not None]


def _fitted(batch: Batch, token: int, fields: Tensor) -> _Outputs:
    """The fits of one token's outputs in which the decay of the start state stands apart from every token."""
    solved = fit(fields, (batch.outputs.seen - batch.outputs.exact)[:, token])
    scattered = (batch.outputs.budget + batch.outputs.rounding)[:, token]
    variance = ((solved.rows[..., 0, :] ** 2) * scattered**2).sum(-1) / 3
    gate = batch.bound.output_decay[:, token]
    usable = solved.known[..., 0] & torch.isfinite(gate) & torch.isfinite(variance) & (variance > 0)
    # a token's field that repeats the readout takes a share of its error
    usable &= (solved.mixing[..., 0, 0] - 1).abs() < 1e-6
    return _Outputs(coefficient=solved.coefficients[..., 0][usable].cpu(), gate=gate[usable].cpu(), variance=variance[usable].cpu())


def _measurement(path: str, parts: Sequence[_Outputs], evaluated: Path) -> Measurement | None:
    coefficient, gate, variance = (torch.cat([getattr(p, f) for p in parts]) for f in ("coefficient", "gate", "variance"))
    if not len(coefficient):
        return None
    weight = 1 / variance
    weight = weight / weight.sum()
    mean, allowed = float(weight @ coefficient), float(weight @ gate)
    effective = 1 / float(weight @ weight)
    unbiased = evaluated.readout in _UNBIASED and evaluated.accumulator in _UNBIASED
    if unbiased and effective >= _ENOUGH:
        noise = math.sqrt(float(weight**2 @ (coefficient - mean) ** 2) * effective / (effective - 1))
        derivation = _SCATTERED
    else:
        noise, derivation = math.sqrt(float(weight**2 @ variance)), _BOUNDED
    budget = allowed + DEVIATIONS * noise
    diagnosis = ""
    if abs(mean) > budget:
        diagnosis = f"the decay of the start state is off by {mean:+.2e} (2^{math.log2(abs(mean)):.1f}) of itself on average"
    return Measurement(
        guarantee="gates", value=abs(mean), budget=budget, unit="relative", derivation=derivation,
        place={"path": path, "coefficient": "the decay of the start state, pooled"}, got=1 + mean, exact=1.0, diagnosis=diagnosis,
        facts={"outputs": len(coefficient), "gate term": allowed, "noise": noise},
    )
