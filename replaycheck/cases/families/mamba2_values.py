"""Laws of what a layer multiplies: x, B, C and z of a regime, and the state a request starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replaycheck_reference.variant import Mamba2Variant

from ..layers import Geometry
from ..stream import Floats, Stream

__all__ = [
    "StartLaw", "Values", "ValueLaw", "exact", "exact_start", "extreme", "magnitude", "no_start", "normal", "normal_start", "nothing",
    "nothing_positive", "one_channel", "one_channel_start", "one_hot", "outlier", "period", "positive", "positive_start", "signs",
    "single_entries", "units", "visited",
]

_EXACT_START = 4    # largest start entry of the exact law
_EXACT_SKIP = 2     # largest D of the exact law


@dataclass(frozen=True, kw_only=True)
class Values:
    """x, z: [tokens, heads, head_dim]; B, C: [tokens, groups, state_dim]; float64, not yet rounded to the activation format."""

    x: Floats
    B: Floats
    C: Floats
    z: Floats


#: (stream, geometry, tokens, variant) -> Values
ValueLaw = Callable[[Stream, Geometry, int, Mamba2Variant], Values]
#: (stream, geometry) -> [heads, head_dim, state_dim]
StartLaw = Callable[[Stream, Geometry], Floats]


def _shapes(geometry: Geometry, tokens: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    return (tokens, geometry.heads, geometry.head_dim), (tokens, geometry.groups, geometry.state_dim)


def normal(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """Normals of variance 1; z of variance 4."""
    wide, narrow = _shapes(geometry, tokens)
    return Values(x=stream.normal("x", wide), B=stream.normal("B", narrow), C=stream.normal("C", narrow), z=2 * stream.normal("z", wide))


def positive(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """Moduli of normals: nothing cancels."""
    drawn = normal(stream, geometry, tokens, variant)
    return Values(x=abs(drawn.x), B=abs(drawn.B), C=abs(drawn.C), z=abs(drawn.z))


def extreme(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """x, B and C of rms 2^-4, so that dt = 1e4 keeps states and outputs inside fp16; z from -90 to 8."""
    drawn = normal(stream, geometry, tokens, variant)
    return Values(x=drawn.x / 16, B=drawn.B / 16, C=drawn.C / 16, z=stream.uniform("z extreme", drawn.z.shape, -90.0, 8.0))


def nothing(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """x = 0: the start state only decays."""
    drawn = normal(stream, geometry, tokens, variant)
    return Values(x=np.zeros_like(drawn.x), B=drawn.B, C=drawn.C, z=drawn.z)


def nothing_positive(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """x = 0 and C >= 0: the start state is summed up, and nothing cancels."""
    drawn = nothing(stream, geometry, tokens, variant)
    return Values(x=drawn.x, B=drawn.B, C=abs(drawn.C), z=drawn.z)


def units(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """x = 1 and B one entry of 1, each token's in a column of its own while there are columns: the state holds dt itself."""
    drawn = normal(stream, geometry, tokens, variant)
    column = np.arange(tokens)[:, None] % geometry.state_dim + np.zeros((tokens, geometry.groups), dtype=np.int64)
    return Values(x=np.ones_like(drawn.x), B=one_hot(column, geometry.state_dim).astype(np.float64), C=drawn.C, z=drawn.z)


def single_entries(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """Three in four tokens have x = 0; the others one entry of x a head and one entry of B a group."""
    drawn = normal(stream, geometry, tokens, variant)
    awake = (stream.integers("awake", (tokens,), 0, 4) == 0)[:, None, None]
    row = stream.integers("row", (tokens, geometry.heads), 0, geometry.head_dim)
    column = stream.integers("column", (tokens, geometry.groups), 0, geometry.state_dim)
    x = drawn.x * (awake & one_hot(row, geometry.head_dim))
    return Values(x=x, B=drawn.B * one_hot(column, geometry.state_dim), C=drawn.C, z=drawn.z)


def one_channel(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """x of rms 2^-4 but for one row a head, 1024 times larger."""
    drawn = normal(stream, geometry, tokens, variant)
    return Values(x=drawn.x * outlier(geometry), B=drawn.B, C=drawn.C, z=drawn.z)


def exact(stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> Values:
    """x in -2..2; B one entry a group, such that dt * B is 1 or -1, two tokens in a row at one column; C of -1 or 1 at up to four columns,
    most of them columns of late tokens."""
    wide, narrow = _shapes(geometry, tokens)
    lead = (tokens, geometry.groups)
    offset, stride = stream.integer("offset", 0, geometry.state_dim), 2 * stream.integer("stride", 0, geometry.state_dim) + 1
    x = stream.integers("x", wide, -2, 3).astype(np.float64)
    token = np.arange(tokens)[:, None] + np.zeros(lead, dtype=np.int64)
    B = signs(stream, "B", lead)[..., None] * one_hot(visited(token, offset, stride, geometry), geometry.state_dim)
    B = B * (2.0**-5 if variant.softplus else 1.0)
    C = np.zeros(narrow)
    for k in range(3):
        seen = np.maximum(token - stream.integers(f"age {k}", lead, 0, 8), 0)
        np.put_along_axis(C, visited(seen, offset, stride, geometry)[..., None], signs(stream, f"C {k}", lead)[..., None], axis=-1)
    np.put_along_axis(C, stream.integers("C column", (*lead, 1), 0, geometry.state_dim), signs(stream, "C", lead)[..., None], axis=-1)
    return Values(x=x, B=B, C=C, z=np.zeros(wide))


def magnitude(geometry: Geometry, tokens: int) -> int:
    """A bound on every state entry, partial sum and output of `exact` over so many tokens: integers up to here must be representable."""
    visits = 2 * -(-tokens // (2 * period(geometry)))
    entry = _EXACT_START + 2 * visits
    return 4 * entry + 2 * _EXACT_SKIP


def visited(token: np.ndarray, offset: int, stride: int, geometry: Geometry) -> np.ndarray:
    """The column of each token: every column of a power-of-two state dim is visited before one comes again."""
    return (offset + token // 2 * stride) % geometry.state_dim


def period(geometry: Geometry) -> int:
    """Fewest pairs of tokens before a column comes again, whatever the odd stride: the largest power of two in state_dim."""
    return geometry.state_dim & -geometry.state_dim


def signs(stream: Stream, name: str, shape: tuple[int, ...]) -> Floats:
    return (2 * stream.integers(f"sign {name}", shape, 0, 2) - 1).astype(np.float64)


def one_hot(index: np.ndarray, size: int) -> np.ndarray:
    """bool [..., size]."""
    return np.asarray(np.arange(size) == index[..., None])


def outlier(geometry: Geometry) -> Floats:
    """Factors [heads, head_dim]: 2^-4 everywhere, 2^6 in one row of each head, the same for all requests."""
    row = (5 * np.arange(geometry.heads) + 3) % geometry.head_dim
    return np.where(one_hot(row, geometry.head_dim), 64.0, 0.0625)


def normal_start(stream: Stream, geometry: Geometry) -> Floats:
    """Normals of variance 1."""
    return stream.normal("start", (geometry.heads, geometry.head_dim, geometry.state_dim))


def no_start(stream: Stream, geometry: Geometry) -> Floats:
    """Zeros: the tokens alone make the state."""
    return np.zeros((geometry.heads, geometry.head_dim, geometry.state_dim))


def positive_start(stream: Stream, geometry: Geometry) -> Floats:
    """Moduli of normals."""
    return np.asarray(abs(normal_start(stream, geometry)))


def one_channel_start(stream: Stream, geometry: Geometry) -> Floats:
    """Normals of rms 2^-4 but for one row a head, 1024 times larger."""
    return normal_start(stream, geometry) * outlier(geometry)[..., None]


def exact_start(stream: Stream, geometry: Geometry) -> Floats:
    """Integers from -4 to 4."""
    shape = (geometry.heads, geometry.head_dim, geometry.state_dim)
    return stream.integers("start", shape, -_EXACT_START, _EXACT_START + 1).astype(np.float64)
