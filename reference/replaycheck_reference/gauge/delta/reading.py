"""What reading a delta rule's state with a key or a query errs by: a state that a step carries, or one rebuilt or scored from the ring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...formats.arrays import unit
from ...policy import Path, Policy
from ...recurrences.batched.delta import DeltaTerms
from ..units import accumulator_unit, additions, growth, product_error, sum_bias, tiny
from .gates import DeltaErrors

__all__ = ["Reading", "Taken", "dot", "read_carried", "read_rebuilt"]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a token leaves to those after it.

    delta: |d| and its error; own: the error it has of its own, as later tokens see it; led: that without what beta errs by and without the
    roundings of sums, whose standard deviation is spread; [..., heads, head_dim]. key: error of the key it is folded with; wide: |k| and
    that, [..., heads, state_dim]. Where a step carries the state, else None: gated, relative error of the token's decays,
    [..., heads, channels]; before, after: errors of the state before it was predicted from and after it.
    """

    delta: Tensor
    own: Tensor
    led: Tensor
    spread: Tensor
    key: Tensor
    wide: Tensor
    gated: Tensor | None = None
    before: Tensor | None = None
    after: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Errors of state * x for every row, [..., heads, head_dim].

    error: all of it. led: without the roundings of sums, which are of either sign, each by itself. spread: their standard deviation.
    """

    error: Tensor
    led: Tensor
    spread: Tensor


def dot(state: Tensor, x: Tensor) -> Tensor:
    """Every row of the state times x: [..., heads, head_dim]."""
    return torch.einsum("...hpn,...hn->...hp", state, x)


def read_carried(policy: Policy, path: Path, method: str, given: str, size: Tensor, x: Tensor) -> Reading:
    """Reading a state of moduli `size` as it is. x: moduli, with their own errors."""
    product, count = product_error(method, given=given), x.shape[-1]
    floors = _floors(policy, path, product.absolute, size, x, 1)
    reduced = growth(additions(count, path.order), accumulator_unit(path.accumulator))
    moduli = dot(size, x)
    return Reading(
        error=((1 + product.relative) * (1 + reduced) - 1) * moduli + floors,
        led=((1 + product.relative) * (1 + sum_bias(count, path)) - 1) * moduli + floors, spread=_spread(path, count, 0) * moduli,
    )


def read_rebuilt(
    terms: DeltaTerms, policy: Policy, path: Path, method: str, given: str, errors: DeltaErrors, taken: Sequence[Taken], now: int,
    size: Tensor, x: Tensor,
) -> Reading:
    """Reading the start state and the tokens taken, decayed to token `now`; errors of deltas aside."""
    fp32, count, columns = unit("fp32"), len(taken), x.shape[-1]
    product, token, score, value = (product_error(name, given=given) for name in (method, path.token, path.score, path.value))
    start = dot(terms.start.abs(), torch.exp(terms.total[..., now, :, :]) * x)
    gated = dot(terms.start.abs(), errors.decay[..., now, :, :] * x)
    floor = tiny(policy, path)
    floors = _floors(policy, path, product.absolute, size, x, count + 2)
    tokens = torch.zeros_like(start)
    absolute = floor + score.absolute + value.absolute + token.absolute
    for j, one in enumerate(taken):
        met = one.wide * x
        tokens = tokens + one.delta * (torch.exp(terms.span[..., now, j, :, :]) * met).sum(-1)[..., None]
        gated = gated + one.delta * (errors.weight[..., now, j, :, :] * met).sum(-1)[..., None]
        floors = floors + absolute * (one.delta * (columns + 2 + 2 * x.sum(-1)[..., None]) + met.sum(-1)[..., None])
    begun = (1 + fp32) ** 2 * (1 + product.relative)
    folded = (1 + fp32) ** 2 * ((1 + token.relative) * (1 + product.relative) if path.output == "state"
                                else (1 + score.relative) * (1 + value.relative))
    acc = accumulator_unit(path.accumulator)
    sums = (1 + growth(additions(count + 1, path.order) + 1, acc)) * (1 + growth(additions(columns, path.order), acc))
    biased = (1 + sum_bias(count + 1, path)) * (1 + sum_bias(columns, path))

    def grown(sums_: float) -> Tensor:
        return (begun * sums_ - 1) * start + (folded * sums_ - 1) * tokens + max(begun, folded) * sums_ * gated + floors

    return Reading(error=grown(sums), led=grown(biased), spread=_spread(path, columns, count + 2) * (start + tokens + gated))


def _spread(path: Path, columns: int, others: int) -> float:
    """Standard deviation of the roundings of a sum over columns, each the sum of some others, as a share of the sum of moduli."""
    number = additions(columns, path.order) + additions(others + 1, path.order)
    return accumulator_unit(path.accumulator) * math.sqrt(number / 3)


def _floors(policy: Policy, path: Path, operand: float, size: Tensor, x: Tensor, count: int) -> Tensor:
    """Absolute errors near underflow: of products and sums, of the elements of the state, of operands cut to a narrow format."""
    floor, columns = tiny(policy, path), x.sum(-1)[..., None]
    return floor * (3 * x.shape[-1] + 4 * count * (1 + columns)) + operand * (columns + size.sum(-1) + 1)
