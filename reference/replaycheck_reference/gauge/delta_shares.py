"""The end state's budget of a delta rule by kind, for fitted coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..recurrences.batched.delta import DeltaTerms
from .delta_gates import DeltaErrors

__all__ = ["DeltaShares", "delta_shares"]


@dataclass(frozen=True, kw_only=True)
class DeltaShares:
    """See `recurrence.Shares`.

    allowed: [..., heads, 1 + 2 tokens]; inf where every key channel has its own decay, which no single field tells.
    scattered: [..., heads, head_dim, state_dim]. etas: errors of deltas, [..., tokens, heads, head_dim]; keys: what they are folded with at
    the end; deltas, key_errors: what errors of keys are folded with, and they, decayed. along: what of the decayed start state lies along
    keys, [..., heads, head_dim, state_dim]. weights: relative error of each delta's decay to the end, [..., tokens, heads].
    """

    allowed: Tensor
    scattered: Tensor
    etas: Tensor
    keys: Tensor
    deltas: Tensor
    key_errors: Tensor
    along: Tensor
    weights: Tensor
    folded: Tensor

    @property
    def told(self) -> bool:
        """Whether a field stands for one gate: where every key channel has its own decay, or keys fill the space, none does."""
        return bool(torch.isfinite(self.allowed).any())

    def together(self, rows: Tensor, some: slice) -> Tensor:
        """The most that errors of whole deltas, of keys and of decays along keys can put into each coefficient."""
        by_delta = torch.einsum("whipn,wjhn->whipj", rows, self.keys[some]).abs()
        error = torch.einsum("whipj,wjhp->whi", by_delta, self.etas[some])
        by_key = torch.einsum("whipn,wjhp->whinj", rows, self.deltas[some]).abs()
        error = error + torch.einsum("whinj,wjhn->whi", by_key, self.key_errors[some])
        folded = torch.einsum("whipn,wjhp,wjhn->whij", rows, self.deltas[some], self.folded[some]).abs()
        error = error + torch.einsum("whij,wjh->whi", folded, self.weights[some])
        along = torch.einsum("whipn,whpn->whi", rows, self.along[some]).abs()
        return error + along * torch.where(torch.isfinite(self.allowed[some][..., :1]), self.allowed[some][..., :1], 0.0)


def delta_shares(
    terms: DeltaTerms, errors: DeltaErrors, sizes: list[Tensor], etas: list[Tensor], keys: list[Tensor], scattered: Tensor, *, carried: bool
) -> DeltaShares:
    """Shares of a window that was carried token by token, or rebuilt at its end."""
    tokens = terms.k.shape[-3]
    weight = torch.exp(terms.span[..., -1, :, :, :])
    decays = (errors.decay / torch.exp(terms.total))[..., -1, :, 0]
    since = torch.zeros_like(terms.beta)
    if carried:
        one = errors.one[..., 0]
        decays = one.sum(-2)
        since = decays[..., None, :] - torch.cumsum(one, -2)
    pairs = torch.stack([errors.beta, since], -1).movedim(-3, -2).flatten(-2)
    allowed = torch.cat([decays[..., None], pairs], -1)
    if terms.log_decay.shape[-1] > 1 or tokens >= terms.k.shape[-1]:
        allowed = torch.full_like(allowed, torch.inf)
    relative = torch.where(weight > 0, errors.weight[..., -1, :, :, :] / weight, 0.0).amax(-1) * (not carried)
    carried_start = terms.carried(terms.start, 0)
    wrong, seen = torch.stack(etas, -3), torch.stack(keys, -3)
    return DeltaShares(
        allowed=allowed, scattered=scattered, etas=wrong + _fed_back(terms, torch.stack(sizes, -3), seen), keys=terms.keys,
        deltas=terms.delta, key_errors=weight * seen, along=carried_start - terms.start_field(), weights=relative, folded=weight * terms.k,
    )


def _fed_back(terms: DeltaTerms, deltas: Tensor, keys: Tensor) -> Tensor:
    """What errors of earlier keys put into later deltas, by way of their predictions: [..., tokens, heads, head_dim]."""
    decayed = torch.exp(terms.span) * keys[..., None, :, :, :]
    met = (decayed * terms.k.abs()[..., :, None, :, :]).sum(-1) * terms.beta.abs()[..., :, None, :]
    later = torch.ones(met.shape[-3:-1], device=met.device, dtype=met.dtype).tril(-1)[..., None]
    return torch.einsum("...ijh,...jhp->...ihp", met * later, deltas)
