"""Device functions on a slot's window: the committed ring rows since the checkpoint, and after them the tokens of this forward.

Tokens are numbered from the checkpoint on: 0 .. used - 1 are committed, used .. used + length - 1 fresh. Tiles hold them youngest first,
at places that depend on the build and the cursor only, never on how many fresh tokens there are: the sums that lead to an output then
have one order whatever drafts follow it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..gates import step_size

__all__ = ["committed", "committed_sizes", "gather", "history_weights", "ring_row", "sizes", "window_weights"]


@triton.jit
def ring_row(token, origin, RING: tl.constexpr):
    """Where a token lies in a ring of RING rows whose token 0 lies at `origin`. token >= 0 where it matters."""
    return (origin + token) % RING


@triton.jit
def committed(ring, taken, inside):
    """Rows of the ring, [tokens, columns], at the pointers `ring`; zero where not `taken` or not `inside`."""
    return tl.load(ring, mask=taken[:, None] & inside[None, :], other=0.0)


@triton.jit
def gather(now, ring, past, fresh, inside):
    """The window's rows, [tokens, columns], zero where neither: from the pointers `ring` where `past`, from `now` where `fresh`."""
    new = tl.load(now, mask=fresh[:, None] & inside[None, :], other=0.0)
    return tl.where(past[:, None], committed(ring, past, inside), new)


@triton.jit
def committed_sizes(dt_ring, token, count, origin, RING: tl.constexpr):
    """dt of the first `count` tokens in the ring in fp32, zero for others."""
    return tl.load(dt_ring + ring_row(token, origin, RING), mask=(token >= 0) & (token < count), other=0.0)


@triton.jit
def sizes(
    dt, dt_ring, token, used, length, origin, row, bias, RING: tl.constexpr, SOFTPLUS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr
):
    """dt of the window's tokens in fp32, zero outside the window. dt: of the first fresh token, as received, `row` apart."""
    fresh = (token >= used) & (token < used + length)
    old = committed_sizes(dt_ring, token, used, origin, RING)
    new = step_size(tl.load(dt + (token - used).to(tl.int64) * row, mask=fresh, other=0.0), bias, SOFTPLUS, LOW, HIGH)
    return tl.where(token < used, old, tl.where(fresh, new, 0.0))


@triton.jit
def window_weights(size, younger, token, oldest, query, a):
    """Weights of the window's tokens at every query, fp32 [tokens, queries], and decay of the state before token `oldest`, [queries].

    size: dt of the tokens; younger: dt of the tokens one place younger; query: token at which an output is taken. The sum of dt over
    the tokens in between is a running sum from the youngest on; tokens before the oldest and after the query are selected away.
    """
    seen = (token[:, None] <= query[None, :]) & (token >= oldest)[:, None]
    since = tl.where(token[:, None] + 1 <= query[None, :], younger[:, None], 0.0)
    weight = tl.where(seen, size[:, None] * tl.exp(a * tl.cumsum(since, 0)), 0.0)
    return weight, tl.exp(a * tl.sum(tl.where(seen, size[:, None], 0.0), 0))


@triton.jit
def history_weights(size, younger, token, count, a):
    """Weights, fp32 [tokens], and decay of a state that takes the first `count` tokens of the window and no other."""
    taken = (token >= 0) & (token < count)
    since = tl.where(taken & (token + 1 < count), younger, 0.0)
    weight = tl.where(taken, size * tl.exp(a * tl.cumsum(since, 0)), 0.0)
    return weight, tl.exp(a * tl.sum(tl.where(taken, size, 0.0), 0))
