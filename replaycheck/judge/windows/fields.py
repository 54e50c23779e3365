"""Least squares of a residual on the fields of a window: what one error of a gate would add to a result."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Fit", "field_names", "fit"]

#: Directions in which fields differ by less than this are left out of a fit.
_RCOND = 1e-9
#: A field below this norm is left out: near underflow errors are absolute and follow the field.
_SMALLEST = 2.0**-96


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


def field_names(kinds: tuple[str, ...], tokens: int) -> list[str]:
    """The name of every field of a window of so many tokens: what its coefficient is the relative error of."""
    return ["the decay of the start state"] + [f"the {kind} of the token of age {tokens - 1 - j}" for j in range(tokens) for kind in kinds]
