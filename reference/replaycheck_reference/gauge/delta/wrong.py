"""What puts errors into the deltas of a window by way of their predictions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...recurrences.batched.delta import DeltaTerms
from .gates import DeltaErrors
from .reading import Taken, dot

__all__ = ["answer", "of_gates", "of_keys", "of_roundings"]


def of_keys(terms: DeltaTerms, taken: Sequence[Taken]) -> Tensor:
    """Errors of deltas from errors of earlier keys: [..., tokens, heads, head_dim]."""
    decayed = torch.exp(terms.span) * torch.stack([one.key for one in taken], -3)[..., None, :, :, :]
    met = (decayed * terms.k.abs()[..., :, None, :, :]).sum(-1) * terms.beta.abs()[..., :, None, :] * _earlier(terms)
    return torch.einsum("...mjh,...jhp->...mhp", met, torch.stack([one.delta for one in taken], -3))


def of_roundings(terms: DeltaTerms, taken: Sequence[Taken]) -> Tensor:
    """Errors of deltas from the roundings of a state that is carried: [..., tokens, heads, head_dim]."""
    wrong = torch.zeros_like(terms.v)
    for j, one in enumerate(taken):
        if one.before is None or one.after is None:
            continue
        for m in range(j, len(taken)):
            size = one.before + (one.after if j < m else 0.0)
            seen = dot(size, torch.exp(terms.span[..., m, j, :, :]) * terms.k[..., m, :, :].abs())
            wrong[..., m, :, :] += terms.beta[..., m, :, None].abs() * seen
    return wrong


def of_gates(terms: DeltaTerms, errors: DeltaErrors, taken: Sequence[Taken]) -> Tensor:
    """Errors of deltas from the decays of a state that is carried, channel by channel: [..., tokens, heads, head_dim]."""
    since_start = torch.cumsum(errors.one, -3)
    wrong = []
    for m in range(len(taken)):
        k, wanted = terms.k[..., m, :, :].abs(), since_start[..., m, :, :]
        size = dot(terms.start.abs(), wanted * torch.exp(terms.total[..., m, :, :]) * k)
        for j in range(m):
            weight = (wanted - since_start[..., j, :, :]) * torch.exp(terms.span[..., m, j, :, :])
            size = size + taken[j].delta * (weight * taken[j].wide * k).sum(-1)[..., None]
        wrong.append(terms.beta[..., m, :, None].abs() * size * (taken[m].gated is not None))
    return torch.stack(wrong, -3)


def answer(terms: DeltaTerms) -> Tensor:
    """How each delta answers to a unit error of another: [..., heads, tokens, tokens], the inverse of I + beta times scores of keys.

    Predictions of predictions are multiplied out here, before moduli are taken.
    """
    scores = (torch.exp(terms.span) * terms.k[..., None, :, :, :] * terms.k[..., :, None, :, :]).sum(-1)
    matrix = (terms.beta[..., :, None, :] * _earlier(terms) * scores).movedim(-1, -3)
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    inverse: Tensor = torch.linalg.solve_triangular(matrix + one, one.expand_as(matrix), upper=False)
    return inverse


def _earlier(terms: DeltaTerms) -> Tensor:
    """1 for tokens j < m: [tokens, tokens, 1], m first."""
    count = terms.k.shape[-3]
    return torch.ones(count, count, dtype=terms.k.dtype, device=terms.k.device).tril(-1)[..., None]
