"""Fields of a window: what one relative error of the start state's decay, or of one token's weight, would add to a result."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from replaycheck_reference.recurrences.batched.mamba2 import Mamba2Terms

__all__ = ["Fit", "fit", "output_fields", "state_fields"]

#: Directions in which fields differ by less than this are left out of a fit.
_RCOND = 1e-9
#: A field below this norm is left out: near underflow errors are absolute and follow the field.
_SMALLEST = 2.0**-96


def state_fields(terms: Mamba2Terms) -> Tensor:
    """[..., heads, 1 + tokens, head_dim * state_dim]: the decayed start state, then each token's weighted outer product."""
    weighted = terms.weight[..., -1, :, :, None] * terms.x
    tokens = torch.einsum("...jhp,...jhn->...hjpn", weighted, terms.B)
    start = (terms.decay[..., -1, :, None, None] * terms.start).unsqueeze(-3)
    return torch.cat([start, tokens], -3).flatten(-2)


def output_fields(terms: Mamba2Terms) -> Tensor:
    """[..., tokens, heads, 1 + tokens, head_dim]: the decayed readout of the start state, then each token's weighted score times x."""
    start = (terms.decay[..., None] * terms.readout).unsqueeze(-2)
    tokens = torch.einsum("...mjh,...jhp->...mhjp", terms.weight * terms.score, terms.x)
    fields = torch.cat([start, tokens], -2)
    gate = terms.gate
    return fields if gate is None else fields * gate.unsqueeze(-2)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Least squares of a residual on fields.

    coefficients: relative errors, [..., fields]. rows: the linear map from residual to coefficients, [..., fields, elements].
    mixing: [..., fields, fields], the coefficients that unit errors of each field give: the identity unless fields are dependent.
    known: which fields were fitted.
    """

    coefficients: Tensor
    rows: Tensor
    mixing: Tensor
    known: Tensor


def fit(fields: Tensor, residual: Tensor) -> Fit:
    """Least squares with every field scaled to unit norm. fields: [..., fields, elements]; residual: [..., elements].

    Where anything is not finite there is nothing to fit: no field is fitted.
    """
    sound = torch.isfinite(fields).flatten(-2).all(-1) & torch.isfinite(residual).all(-1)
    fields = torch.where(sound[..., None, None], fields, 0.0)
    residual = torch.where(sound[..., None], residual, 0.0)
    norm = fields.norm(dim=-1, keepdim=True)
    known = norm > _SMALLEST
    scale = torch.where(known, norm, 1.0)
    unit = torch.where(known, fields / scale, 0.0)
    gram = unit @ unit.transpose(-1, -2)
    inverse = torch.linalg.pinv(gram, rtol=_RCOND, hermitian=True)
    rows = inverse @ unit / scale
    mixing = inverse @ gram * scale.transpose(-1, -2) / scale
    return Fit(coefficients=(rows @ residual[..., None])[..., 0], rows=rows, mixing=mixing, known=known[..., 0])
