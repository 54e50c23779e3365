"""The guarantee "gates" on outputs: the effective decay of the start state, pooled over every output of a path.

One output has too few rows to tell a small gate error from its roundings; a gate error that always has the same sign adds up over
many. Each output's rows are fitted on the decayed readout and on every token's weighted score, whose own errors stay in their fields.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...verdict.measurement import Measurement
from .batches import Batch
from .fields import fit, output_fields
from .gates import DEVIATIONS

__all__ = ["pooled_decay_measurements"]

#: Rows an output must have for each field fitted.
_ROWS_A_FIELD = 3
_DERIVATION = "mean of the claimed policy's gate error, and 8 standard deviations of the pooled roundings, uniform over their budget"


def pooled_decay_measurements(judged: Sequence[Batch]) -> list[Measurement]:
    """One measurement a path: the weighted mean error of the decay that outputs show. Paths whose outputs have too few rows are left out."""
    sums: dict[str, Tensor] = {}
    for batch in judged:
        for token, path in enumerate(batch.paths):
            if batch.layer.head_dim >= _ROWS_A_FIELD * (token + 2):
                sums[path] = sums.get(path, torch.zeros(4, dtype=torch.float64)) + _sums(batch, token)
    return [m for path, total in sorted(sums.items()) if (m := _measurement(path, total)) is not None]


def _sums(batch: Batch, token: int) -> Tensor:
    """Over one token's outputs: sums of coefficient / variance, gate term / variance, 1 / variance, and how many there were."""
    fields = output_fields(batch.terms)[:, token, :, : token + 2]
    residual = batch.outputs.seen - batch.outputs.exact
    solved = fit(fields, residual[:, token])
    scattered = (batch.outputs.budget + batch.outputs.rounding)[:, token]
    variance = ((solved.rows[..., 0, :] ** 2) * scattered**2).sum(-1) / 3
    gate = batch.bound.output_decay[:, token]
    usable = solved.known[..., 0] & torch.isfinite(gate) & torch.isfinite(variance) & (variance > 0)
    # a token's field that repeats the readout takes a share of its error; what is left of the decay's own is on the diagonal
    usable &= (solved.mixing[..., 0, 0] - 1).abs() < 1e-6
    weight = torch.where(usable, 1 / torch.where(usable, variance, 1.0), 0.0)
    held = torch.where(usable, gate, 0.0)
    return torch.stack([(solved.coefficients[..., 0] * weight).sum(), (held * weight).sum(), weight.sum(), usable.sum().to(torch.float64)]).cpu()


def _measurement(path: str, total: Tensor) -> Measurement | None:
    coefficient, gate, weight, count = total.tolist()
    if not weight:
        return None
    mean, allowed = coefficient / weight, gate / weight + DEVIATIONS / math.sqrt(weight)
    diagnosis = ""
    if abs(mean) > allowed:
        diagnosis = f"the decay of the start state is off by {mean:+.2e} (2^{math.log2(abs(mean)):.1f}) of itself on average"
    return Measurement(
        guarantee="gates", value=abs(mean), budget=allowed, unit="relative", derivation=_DERIVATION,
        place={"path": path, "coefficient": "the decay of the start state, pooled"}, got=1 + mean, exact=1.0, diagnosis=diagnosis,
        facts={"outputs": int(count), "gate term": gate / weight, "noise": 1 / math.sqrt(weight)},
    )
