"""The end state's budget of a delta rule by kind, where a head has one decay and is fitted whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...recurrences.batched.delta import DeltaTerms
from .gates import DeltaErrors
from .reading import Taken
from .wrong import of_keys, of_roundings

__all__ = ["DeltaShares", "delta_shares"]


@dataclass(frozen=True, kw_only=True)
class DeltaShares:
    """See `recurrence.Shares`. Units are heads.

    allowed: [..., heads, 1 + 2 tokens]; inf where keys may fill the space. scattered: [..., heads, head_dim, state_dim].
    wrong: errors of each delta beside that of its beta, noise: the standard deviation of its sums, [..., tokens, heads, head_dim];
    keys: what they are folded with at the end. deltas, key_errors: what errors of keys are folded with, and they, decayed. along: what of
    the decayed start state lies along keys, [..., heads, head_dim, state_dim]. weights: relative error of each delta's decay to the end,
    [..., tokens, heads]; folded: the decayed keys.
    """

    allowed: Tensor
    scattered: Tensor
    wrong: Tensor
    noise: Tensor
    keys: Tensor
    deltas: Tensor
    key_errors: Tensor
    along: Tensor
    weights: Tensor
    folded: Tensor

    @property
    def told(self) -> bool:
        """Whether a field stands for one gate: where keys may fill the space, none does."""
        return bool(torch.isfinite(self.allowed).any())

    def _by_delta(self, rows: Tensor, some: slice) -> Tensor:
        """What a unit error of a row of each delta puts into each coefficient: [windows, heads, fields, head_dim, tokens]."""
        return torch.einsum("whipn,wjhn->whipj", rows.view(*rows.shape[:-1], *self.along.shape[-2:]), self.keys[some])

    def together(self, rows: Tensor, some: slice) -> Tensor:
        """The most that errors of whole deltas, of keys and of decays along keys can put into each coefficient."""
        shaped = rows.view(*rows.shape[:-1], *self.along.shape[-2:])
        error = torch.einsum("whipj,wjhp->whi", self._by_delta(rows, some).abs(), self.wrong[some])
        by_key = torch.einsum("whipn,wjhp->whinj", shaped, self.deltas[some])
        error = error + torch.einsum("whinj,wjhn->whi", by_key.abs(), self.key_errors[some])
        folded = torch.einsum("whinj,wjhn->whij", by_key, self.folded[some]).abs()
        error = error + torch.einsum("whij,wjh->whi", folded, self.weights[some])
        along = torch.einsum("whipn,whpn->whi", shaped, self.along[some]).abs()
        return error + along * torch.where(torch.isfinite(self.allowed[some][..., :1]), self.allowed[some][..., :1], 0.0)

    def variance(self, rows: Tensor, some: slice) -> Tensor:
        """What the sums of predictions put into each coefficient, each of them rounded by itself."""
        return torch.einsum("whipj,wjhp->whi", self._by_delta(rows, some) ** 2, self.noise[some] ** 2)


def delta_shares(terms: DeltaTerms, errors: DeltaErrors, taken: Sequence[Taken], scattered: Tensor, *, carried: bool) -> DeltaShares:
    """Shares of a window that was carried token by token, or rebuilt at its end."""
    weight = torch.exp(terms.span[..., -1, :, :, :])
    decays = (errors.decay / torch.exp(terms.total))[..., -1, :, 0]
    since = torch.zeros_like(terms.beta)
    if carried:
        one = errors.one[..., 0]
        decays = one.sum(-2)
        since = decays[..., None, :] - torch.cumsum(one, -2)
    pairs = torch.stack([errors.beta, since], -1).movedim(-3, -2).flatten(-2)
    allowed = torch.cat([decays[..., None], pairs], -1)
    if terms.k.shape[-3] >= terms.k.shape[-1]:
        allowed = torch.full_like(allowed, torch.inf)
    relative = torch.where(weight > 0, errors.weight[..., -1, :, :, :] / weight, 0.0).amax(-1) * (not carried)
    wrong = torch.stack([one.led for one in taken], -3) + of_keys(terms, taken) + of_roundings(terms, taken)
    return DeltaShares(
        allowed=allowed, scattered=scattered, wrong=wrong, noise=torch.stack([one.spread for one in taken], -3), keys=terms.keys,
        deltas=terms.delta, key_errors=weight * torch.stack([one.key for one in taken], -3),
        along=terms.carried(terms.start, 0) - terms.start_field(), weights=relative, folded=weight * terms.k,
    )
