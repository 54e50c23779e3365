"""Laws of the gates: how the decay parameter, the bias and the raw dt of a regime are drawn.

z = A * dt is the log-decay of a token. With softplus on, softplus(raw) is close to e^raw for small dt, so a log-uniform dt comes from a
uniform raw and no logarithm is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replaycheck_reference.variant import Mamba2Variant

from ..stream import Floats, Stream

__all__ = [
    "BEND", "DECAY_ONE", "DT", "ERASE", "EXACT", "EXTREME", "FAINT", "FAST", "IDENTITY", "ODD", "SLOW", "SPIKE", "SUBNORMAL", "TRAINED",
    "Gates",
]

Span = tuple[float, float]
Events = Callable[[Stream, Floats, Mamba2Variant], Floats]

_ULP = 2.0**-19     # of fp32 at 20


@dataclass(frozen=True, kw_only=True)
class Gates:
    """A law of the gates.

    A: span of |A|, uniform; A_log: span of A_log, uniform, None where the regime has no A_log form.
    raw: span of raw dt, bias included, uniform, where softplus is on. octaves: exponents of two between which dt is log-uniform where it
    is off. biases: dt_bias of the heads in turn, their moduli where softplus is off; None splits `raw` in a half-wide span of biases and a
    deviation, token by token.
    events: replaces some of the raw dt drawn so far.
    """

    A: Span
    A_log: Span | None
    raw: Span
    octaves: tuple[int, int]
    biases: tuple[float, ...] | None = None
    events: Events | None = None

    def decay_of(self, stream: Stream, heads: int, variant: Mamba2Variant) -> Floats:
        """A (negative, or -0) or A_log, as the variant takes it: [heads]. Raises ValueError where the law has no A_log form."""
        if variant.decay_parameter == "A":
            return -stream.uniform("A", (heads,), *self.A)
        if self.A_log is None:
            raise ValueError("a decay of exactly 1 has no A_log: it needs decay_parameter 'A'")
        return stream.uniform("A_log", (heads,), *self.A_log)

    def bias_of(self, stream: Stream, heads: int, variant: Mamba2Variant) -> Floats:
        """dt_bias: [heads]; at least 0 where softplus is off."""
        if self.biases is None:
            return stream.uniform("bias", (heads,), *self._spans(variant)[0])
        biases = np.resize(np.array(self.biases), heads)
        return biases if variant.softplus else abs(biases)

    def raw_of(self, stream: Stream, shape: tuple[int, int], variant: Mamba2Variant) -> Floats:
        """dt before bias and softplus: [tokens, heads]."""
        if variant.softplus:
            raw = stream.uniform("dt", shape, *self._spans(variant)[1])
        else:
            raw = stream.octaves("dt", shape, *self.octaves)
        return raw if self.events is None else self.events(stream, raw, variant)

    def _spans(self, variant: Mamba2Variant) -> tuple[Span, Span]:
        """The spans of bias and of dt before the bias."""
        low, high = self.raw
        if not variant.softplus:
            return ((0.0, 2.0 ** (self.octaves[0] - 2)), self.raw)
        if not variant.bias or self.biases is not None:
            return ((0.0, 0.0), self.raw)
        quarter = (high - low) / 4
        return ((low + quarter, high - quarter), (-quarter, quarter))


def _spikes(stream: Stream, raw: Floats, variant: Mamba2Variant) -> Floats:
    """dt near 15 at one token in eight, at another one for each head."""
    phase = stream.integers("spike", (raw.shape[1],), 0, 8)
    spike = (np.arange(raw.shape[0])[:, None] + phase) % 8 == 0
    return np.where(spike, 23.25 if variant.softplus and variant.bias else 15.0, raw)


def _extremes(stream: Stream, raw: Floats, variant: Mamba2Variant) -> Floats:
    """One of the listed values at every token and head; where softplus is off, the dt it would have given, or 0."""
    near_20 = [20 - _ULP, 20.0, 20 + _ULP]
    small = [-30.0, -17.0, -12.0] if variant.softplus else [0.0, 2.0**-25, 2.0**-17]
    values = np.array([*small, *near_20, 88.0, 1e4])
    return values[stream.integers("extreme", raw.shape, 0, len(values))]


def _dying(stream: Stream, raw: Floats, variant: Mamba2Variant) -> Floats:
    """Even heads fall to the subnormals in the first token, then move slowly; odd heads take many tokens to get there."""
    fall = stream.uniform("fall", raw.shape, 5.0, 6.875)
    first = (np.arange(raw.shape[0]) == 0)[:, None]
    even = (np.arange(raw.shape[1]) % 2 == 0)[None, :]
    slow = stream.octaves("linger", raw.shape, -5, -4) if not variant.softplus else stream.uniform("linger", raw.shape, -3.5, -2.75)
    return np.where(even, np.where(first, fall, slow), raw)


def _exact(stream: Stream, raw: Floats, variant: Mamba2Variant) -> Floats:
    """dt = 32 through softplus, whose excess e^-32 is below every format's rounding, or 1 without."""
    del stream
    return np.full_like(raw, 32.0 if variant.softplus else 1.0)


def _odd(stream: Stream, raw: Floats, variant: Mamba2Variant) -> Floats:
    """dt of 32 to 64 in odd quarters: exact in every format of eight bits, and so many that a product with x is exact in none."""
    del variant
    return np.asarray(32.25 + 0.5 * stream.integers("odd", raw.shape, 0, 64), dtype=np.float64)


def _ladder(stream: Stream, raw: Floats, variant: Mamba2Variant) -> Floats:
    """Values from 20 on, where a softplus may be the identity."""
    del variant
    values = np.array([20 - _ULP, 20.0, 20 + _ULP, 20.25, 21.5, 23.0, 24.0, 27.0, 30.0, 31.0, 32.0, 40.5, 64.0, 88.0, 120.0, 1e4])
    return values[stream.integers("ladder", raw.shape, 0, len(values))]


TRAINED = Gates(A=(1, 16), A_log=(0.0, 2.75), raw=(-6.875, -2.25), octaves=(-10, -3))
FAST = Gates(A=(8, 9.25), A_log=(2.125, 2.1875), raw=(-1.5, -0.4375), octaves=(-2, -1))
SLOW = Gates(A=(1, 2), A_log=(0.0, 0.6875), raw=(-9.875, -9.25), octaves=(-15, -13))
DECAY_ONE = Gates(A=(0, 0), A_log=None, raw=(-6.875, -2.25), octaves=(-10, -3))
SPIKE = Gates(A=(3.75, 4.25), A_log=(1.3125, 1.4375), raw=(-8.5, -8.0), octaves=(-12, -11), events=_spikes)
EXTREME = Gates(A=(2.0**-12, 2.0**-4), A_log=(-8.25, -2.75), raw=(0, 0), octaves=(0, 1), biases=(0.0, _ULP, -_ULP), events=_extremes)
SUBNORMAL = Gates(A=(15.75, 16), A_log=(2.75, 2.765625), raw=(-0.125, 0.3125), octaves=(-1, 0), biases=(0.0, 2.0**-6, -(2.0**-6)),
                  events=_dying)
EXACT = Gates(A=(0, 0), A_log=None, raw=(32, 32), octaves=(0, 0), biases=(0.0,), events=_exact)
FAINT = Gates(A=(1, 16), A_log=(0.0, 2.75), raw=(-16.5, -8.0), octaves=(-24, -12))
BEND = Gates(A=(2.0**-6, 2.0**-3), A_log=(-4.125, -2.125), raw=(-4, 14), octaves=(-5, 3))
ERASE = Gates(A=(8, 8), A_log=(2.078125, 2.0859375), raw=(32, 32), octaves=(5, 5), biases=(0.0,))
ODD = Gates(A=(8, 8), A_log=(2.078125, 2.0859375), raw=(32, 32), octaves=(5, 5), biases=(0.0,), events=_odd)
DT = Gates(A=(0, 0), A_log=None, raw=(-16.5, 14), octaves=(-24, 3))
IDENTITY = Gates(A=(0, 0), A_log=None, raw=(0, 0), octaves=(0, 1), biases=(0.0, _ULP, -_ULP), events=_ladder)
