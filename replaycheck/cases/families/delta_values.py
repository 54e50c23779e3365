"""Laws of what a delta rule multiplies: q, k and v of a regime. Start states have the laws of every other recurrence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replaycheck_reference.variant import DeltaVariant

from ..layers import Geometry
from ..stream import Floats, Stream
from .mamba2_values import one_hot, outlier, period, signs, visited

__all__ = ["DeltaValueLaw", "DeltaValues", "alternating", "bits", "collinear", "exact", "normal", "nothing", "one_channel", "one_hot_keys",
           "positive", "repeated", "single_entries", "tiny_keys", "zero_keys"]

_START = 4              # largest start entry of the exact law
_BIG = 4096.0           # a one-hot entry so large that no eps changes what it is after the norm: 1, in fp32


@dataclass(frozen=True, kw_only=True)
class DeltaValues:
    """q, k: [tokens, groups, state_dim]; v: [tokens, heads, head_dim]; float64, not yet rounded to the activation format."""

    q: Floats
    k: Floats
    v: Floats


#: (stream, geometry, tokens, variant) -> DeltaValues
DeltaValueLaw = Callable[[Stream, Geometry, int, DeltaVariant], DeltaValues]


def normal(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """Normals of variance 1; without a norm q and k of rms near state_dim^-1/2, so that keys have norms near 1."""
    narrow = (tokens, geometry.groups, geometry.state_dim)
    size = 2.0 ** -round(np.log2(geometry.state_dim) / 2) if variant.norm == "off" else 1.0
    return DeltaValues(q=size * stream.normal("q", narrow), k=size * stream.normal("k", narrow),
                       v=stream.normal("v", (tokens, geometry.heads, geometry.head_dim)))


def positive(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """Moduli of normals."""
    drawn = normal(stream, geometry, tokens, variant)
    return DeltaValues(q=abs(drawn.q), k=abs(drawn.k), v=abs(drawn.v))


def nothing(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """v = 0."""
    drawn = normal(stream, geometry, tokens, variant)
    return DeltaValues(q=drawn.q, k=drawn.k, v=np.zeros_like(drawn.v))


def single_entries(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """One entry of v a head and one of k a group."""
    drawn = one_hot_keys(stream, geometry, tokens, variant)
    row = stream.integers("row", (tokens, geometry.heads), 0, geometry.head_dim)
    return DeltaValues(q=drawn.q, k=drawn.k, v=drawn.v * one_hot(row, geometry.head_dim))


def one_channel(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """v of rms 2^-4 but for one row a head, 1024 times larger."""
    drawn = normal(stream, geometry, tokens, variant)
    return DeltaValues(q=drawn.q, k=drawn.k, v=drawn.v * outlier(geometry))


def one_hot_keys(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """Keys of one entry."""
    drawn = normal(stream, geometry, tokens, variant)
    column = stream.integers("column", (tokens, geometry.groups), 0, geometry.state_dim)
    size = 1.0 if variant.norm == "off" else 2.0
    return DeltaValues(q=drawn.q, k=size * signs(stream, "k", column.shape)[..., None] * one_hot(column, geometry.state_dim), v=drawn.v)


def repeated(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """The key of the first token at every token: each overwrites what the one before it wrote."""
    drawn = normal(stream, geometry, tokens, variant)
    return DeltaValues(q=drawn.q, k=np.broadcast_to(drawn.k[:1], drawn.k.shape).copy(), v=drawn.v)


def collinear(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """Keys along one line, a little beside it: I - beta k k^T of neighbours nearly cancel or agree."""
    drawn = normal(stream, geometry, tokens, variant)
    return DeltaValues(q=drawn.q, k=drawn.k[:1] + 2.0**-8 * drawn.k, v=drawn.v)


def alternating(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """One key with its sign turned at every token."""
    drawn = repeated(stream, geometry, tokens, variant)
    return DeltaValues(q=drawn.q, k=drawn.k * (1.0 - 2.0 * (np.arange(tokens) % 2))[:, None, None], v=drawn.v)


def zero_keys(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """Keys, or queries, that are zero at one token in three each: a norm divides 0 by its eps."""
    drawn = normal(stream, geometry, tokens, variant)
    which = stream.integers("zero", (tokens, geometry.groups, 1), 0, 3)
    return DeltaValues(q=drawn.q * (which != 1), k=drawn.k * (which != 0), v=drawn.v)


def tiny_keys(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """Norms of keys and queries from 2^-14 to 2^-6, around the root of the usual eps: where it stands shows."""
    drawn = normal(stream, geometry, tokens, variant)
    size = stream.octaves("tiny", (tokens, geometry.groups, 1), -17, -9)
    return DeltaValues(q=drawn.q * size, k=drawn.k * size, v=drawn.v)


def exact(stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> DeltaValues:
    """v in -4..4; k and q one entry a group each, 1 or -1, of 4096 where there is a norm; two tokens in a row at one column, queries most
    often at columns of late tokens."""
    lead, size = (tokens, geometry.groups), _BIG if variant.norm != "off" else 1.0
    offset, stride = stream.integer("offset", 0, geometry.state_dim), 2 * stream.integer("stride", 0, geometry.state_dim) + 1
    token = np.arange(tokens)[:, None] + np.zeros(lead, dtype=np.int64)
    seen = np.maximum(token - stream.integers("age", lead, 0, 8), 0)
    column = np.where(stream.integers("elsewhere", lead, 0, 4) == 0, stream.integers("column", lead, 0, geometry.state_dim),
                      visited(seen, offset, stride, geometry))

    def unit(name: str, place: np.ndarray) -> Floats:
        return np.asarray(size * signs(stream, name, lead)[..., None] * one_hot(place, geometry.state_dim), dtype=np.float64)

    v = stream.integers("v", (tokens, geometry.heads, geometry.head_dim), -_START, _START + 1).astype(np.float64)
    return DeltaValues(q=unit("q", column), k=unit("k", visited(token, offset, stride, geometry)), v=v)


def bits(geometry: Geometry, tokens: int) -> int:
    """Significand bits that a state entry, delta or output of `exact` may need: entries stay within 4, and a visit of a column with beta
    of 1/2 halves once; a delta is within 8 before that."""
    return 4 + 2 * -(-tokens // (2 * period(geometry)))
