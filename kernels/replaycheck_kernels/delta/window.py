"""The tokens of a ring as device functions: what they are worth to the current token, decayed to it."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["BLOCK", "window"]

#: Ring rows that are taken at once, the youngest first.
BLOCK = tl.constexpr(16)


@triton.jit
def window(
    keys, deltas, gates, used, now, key, query, p, N: tl.constexpr, P: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr,
    EACH: tl.constexpr, TILE: tl.constexpr, FOLD: tl.constexpr,
):
    """Of the `used` ring rows: S key and S query, [TILE], S itself, [TILE, COLUMNS] (zero unless FOLD), and the log decay of all, [WIDTH].

    S is what they have put into rows p of the state, decayed to the current token. keys, deltas, gates: pointers to row 0 of the head's
    rings. now: log decay of the current token, [WIDTH]: one number, or one a channel (EACH of them are there). key, query: [COLUMNS].
    A weight is the exponential of the sum of the log decays since, never of a difference. Rows at and past `used` are not read.
    """
    n, c = tl.arange(0, COLUMNS)[None, :], tl.arange(0, WIDTH)[None, :]
    predicted, read = tl.zeros([TILE], tl.float32), tl.zeros([TILE], tl.float32)
    folded = tl.zeros([TILE, COLUMNS] if FOLD else [1, 1], tl.float32)
    since = now
    for first in range(0, used, BLOCK):
        age = first + 1 + tl.arange(0, BLOCK)[:, None]
        there = age <= used
        at = gates + (used - age) * EACH + c
        younger = tl.load(at + EACH, mask=there & (age > first + 1) & (c < EACH), other=0.0)
        weight = tl.exp(since[None, :] + tl.cumsum(younger, 0))
        weighted = weight * tl.load(keys + (used - age) * N + n, mask=there & (n < N), other=0.0).to(tl.float32)
        delta = tl.load(deltas + (used - age) * P + p[None, :], mask=there & (p < P)[None, :], other=0.0).to(tl.float32)
        predicted += tl.sum(tl.sum(weighted * key[None, :], 1)[:, None] * delta, 0)
        read += tl.sum(tl.sum(weighted * query[None, :], 1)[:, None] * delta, 0)
        if FOLD:
            folded = tl.dot(tl.trans(delta), weighted, folded, input_precision="ieee")
        since += tl.sum(tl.load(at, mask=there & (c < EACH), other=0.0), 0)
    return predicted, read, folded, since
