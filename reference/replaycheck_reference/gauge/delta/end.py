"""What errors of a delta rule's window leave in its end state."""

from __future__ import annotations

import torch
from torch import Tensor

from ...formats.arrays import unit
from ...policy import Path
from ...recurrences.batched.delta import DeltaTerms
from ..units import accumulator_unit, additions, growth, product_error, tiny
from .gates import DeltaErrors
from .reading import dot
from .run import DeltaRun

__all__ = ["carried_end", "persistent_end", "rebuilt_end", "scattered_end"]


def rebuilt_end(run: DeltaRun, path: Path, errors: DeltaErrors) -> tuple[Tensor, Tensor]:
    """Errors of rebuilding the end state: roundings, and errors of decays. Both [..., heads, head_dim, state_dim]."""
    terms, fp32, count = run.terms, unit("fp32"), len(run.taken)
    adds = growth(additions(count + 1, path.order) + 1, accumulator_unit(path.accumulator))
    token, floor = product_error(path.token, given=run.given), tiny(run.policy, path)
    begun = (1 + fp32) ** 2 * (1 + adds) - 1
    folded = (1 + fp32) ** 2 * (1 + token.relative) * (1 + adds) - 1
    start = terms.start.abs()
    rounded = start * (torch.exp(terms.total[..., -1, :, :]) * begun)[..., None, :] + floor * (4 * count + 8)
    gated = start * (errors.decay[..., -1, :, :] * (1 + begun))[..., None, :]
    for j, one in enumerate(run.taken):
        weight = torch.exp(terms.span[..., -1, j, :, :])
        rounded = rounded + one.delta[..., None] * (weight * folded * one.wide + floor)[..., None, :]
        rounded = rounded + (floor + token.absolute) * (1 + one.wide)[..., None, :] + token.absolute * one.delta[..., None]
        gated = gated + one.delta[..., None] * (errors.weight[..., -1, j, :, :] * (1 + folded) * one.wide)[..., None, :]
    return rounded, gated


def carried_end(run: DeltaRun) -> Tensor:
    """What errors of a state that is carried leave: [..., heads, head_dim, state_dim]."""
    left = run.second[..., None].expand_as(run.terms.start)
    for j, one in enumerate(run.taken):
        if one.gated is not None and one.before is not None and one.after is not None:
            left = left + _left(run.terms, one.after, j + 1) + _left(run.terms, _met(run.terms, one.before, j), j + 1)
            left = left + _gate_left(run.terms, j, one.gated)
    return left


def persistent_end(run: DeltaRun) -> Tensor:
    """What errors of deltas and keys leave: [..., heads, head_dim, state_dim]."""
    left = torch.zeros_like(run.terms.start)
    for j, one in enumerate(run.taken):
        left = left + one.own[..., None] * run.terms.keys[..., j, :, :].abs()[..., None, :]
        left = left + _left(run.terms, one.delta[..., None] * one.key[..., None, :], j + 1)
    return left


def scattered_end(run: DeltaRun) -> Tensor:
    """Roundings of single elements of a state that is carried, as far as no prediction met them: [..., heads, head_dim, state_dim]."""
    left = torch.zeros_like(run.terms.start)
    for j, one in enumerate(run.taken):
        if one.before is not None and one.after is not None:
            left = left + (one.before + one.after) * torch.exp(run.terms.span[..., -1, j, :, :])[..., None, :]
    return left


def _met(terms: DeltaTerms, size: Tensor, j: int) -> Tensor:
    """|E (I - beta k k^T)| of token j for errors |E| <= size, at most."""
    k, beta = terms.k[..., j, :, :], terms.beta[..., j, :, None, None]
    reflection = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device) - beta * k[..., :, None] * k[..., None, :]
    return torch.einsum("...hpn,...hnc->...hpc", size, reflection.abs())


def _left(terms: DeltaTerms, size: Tensor, first: int) -> Tensor:
    """At most |E P| of errors |E| <= size before token `first`, which is not the first of all; P: the transitions from there to the end.

    P is the plain decay less, for each token, what the decayed error has of its key, along that key carried on to the end.
    """
    count = terms.k.shape[-3]
    left = size * torch.exp(terms.span[..., -1, first - 1, :, :])[..., None, :]
    for i in range(first, count):
        since = torch.exp(terms.span[..., i, first - 1, :, :])
        seen = terms.beta[..., i, :, None].abs() * dot(size, (since * terms.k[..., i, :, :]).abs())
        left = left + seen[..., None] * terms.keys[..., i, :, :].abs()[..., None, :]
    return left


def _gate_left(terms: DeltaTerms, j: int, gated: Tensor) -> Tensor:
    """What the error of token j's decays leaves: of one sign for the whole state where a head has one decay."""
    state = terms.before[..., j, :, :, :]
    if gated.shape[-1] > 1:
        return _left(terms, _met(terms, gated[..., None, :] * state.abs(), j), j + 1)
    k, beta = terms.k[..., j, :, :], terms.beta[..., j, :, None]
    met = state - (beta * dot(state, k))[..., None] * k[..., None, :]
    return gated[..., None] * terms.carried(met, j + 1).abs()
