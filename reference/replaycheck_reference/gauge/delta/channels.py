"""The end state's budget of a delta rule by kind, where every key channel has its own decay and is fitted by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...recurrences.batched.delta import DeltaTerms
from .gates import DeltaErrors
from .reading import Taken
from .wrong import answer, of_gates, of_keys, of_roundings

__all__ = ["ChannelShares", "channel_shares"]


@dataclass(frozen=True, kw_only=True)
class ChannelShares:
    """See `recurrence.Shares`. Units are the channels of all heads.

    allowed: [..., heads * state_dim, 1 + tokens]. scattered: [..., heads, head_dim, state_dim]. wrong: errors of deltas as they were
    folded, what others put into them included and that of their betas aside; noise: the standard deviation of their sums; deltas:
    [..., tokens, heads, head_dim]. keys: what they are folded with, decayed to the end; delta_errors: errors of that, and of betas by way
    of all deltas, [..., tokens, heads, state_dim].
    """

    allowed: Tensor
    scattered: Tensor
    wrong: Tensor
    noise: Tensor
    deltas: Tensor
    keys: Tensor
    delta_errors: Tensor

    @property
    def told(self) -> bool:
        """A channel's field stands for its own decay."""
        return True

    def _shaped(self, rows: Tensor) -> Tensor:
        """[windows, heads, state_dim, fields, head_dim]."""
        return rows.view(rows.shape[0], *self.keys.shape[-2:], *rows.shape[2:])

    def together(self, rows: Tensor, some: slice) -> Tensor:
        """The most that errors of whole deltas and of keys can put into each coefficient."""
        shaped = self._shaped(rows)
        wrong = torch.einsum("whnip,wjhp->whnij", shaped.abs(), self.wrong[some])
        along = torch.einsum("whnip,wjhp->whnij", shaped, self.deltas[some]).abs()
        error = torch.einsum("whnij,wjhn->whni", wrong, self.keys[some]) + torch.einsum("whnij,wjhn->whni", along, self.delta_errors[some])
        return error.flatten(1, 2)

    def variance(self, rows: Tensor, some: slice) -> Tensor:
        """What the sums of predictions put into each coefficient, each of them rounded by itself."""
        noise = torch.einsum("whnip,wjhp->whnij", self._shaped(rows) ** 2, self.noise[some] ** 2)
        return torch.einsum("whnij,wjhn->whni", noise, self.keys[some] ** 2).flatten(1, 2)


def channel_shares(terms: DeltaTerms, errors: DeltaErrors, taken: Sequence[Taken], scattered: Tensor, *, carried: bool) -> ChannelShares:
    """Shares of a window that was carried token by token, or rebuilt at its end."""
    weight = torch.exp(terms.span[..., -1, :, :, :])
    start, since = errors.decay[..., -1, :, :] / torch.exp(terms.total[..., -1, :, :]), errors.weight[..., -1, :, :, :] / weight
    if carried:
        start = errors.one.sum(-3)
        since = start.unsqueeze(-3) - torch.cumsum(errors.one, -3)
    allowed = torch.cat([start.unsqueeze(-3), since], -3).movedim(-3, -1).flatten(-3, -2)
    answers, key = answer(terms).abs(), torch.stack([one.key for one in taken], -3)
    wrong = torch.stack([one.led for one in taken], -3) + of_gates(terms, errors, taken)
    wrong = wrong + of_keys(terms, taken) + of_roundings(terms, taken)
    noise = torch.stack([one.spread for one in taken], -3)
    keys = weight * (terms.k.abs() + key)
    by_beta = torch.einsum("...hmj,...mhn,...jh->...jhn", answers, keys, errors.beta)
    return ChannelShares(
        allowed=allowed, scattered=scattered, wrong=torch.einsum("...hmj,...jhp->...mhp", answers, wrong),
        noise=torch.einsum("...hmj,...jhp->...mhp", answers, noise), deltas=terms.delta, keys=keys, delta_errors=weight * key + by_beta,
    )
