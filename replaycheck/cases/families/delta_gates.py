"""Laws of the gates of a delta rule: how A_log, the bias, the raw gate and the raw beta of a regime are drawn.

One law says the same of every form of the gate: `classic` spans the raw gate before -exp(A_log) softplus, `bounded` the raw gate before
lower_bound sigmoid(exp(A_log) raw), and `given` the octaves of minus the log decay. Where keys have a decay a
channel, every channel is drawn by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replaycheck_reference.variant import DeltaVariant

from ..stream import Floats, Stream

__all__ = ["BEND", "DECAY_ONE", "DeltaGates", "ERASE", "EXTREME", "FAST", "SLOW", "SPIKE", "SUBNORMAL", "TRAINED", "ZEROS", "closed",
           "even", "faint", "halves", "near_halves", "random", "switched", "top"]

Span = tuple[float, float]
Events = Callable[[Stream, Floats, DeltaVariant], Floats]
#: (stream, shape [tokens, heads], variant) -> beta before the sigmoid, or beta itself where it is given.
BetaLaw = Callable[[Stream, tuple[int, int], DeltaVariant], Floats]

_ULP = 2.0**-19     # of fp32 at 20
_SHUT = -1e4        # softplus and sigmoid of it are zero in every format


@dataclass(frozen=True, kw_only=True)
class DeltaGates:
    """A law of the gates. A_log, classic, bounded: spans, uniform; None where the form cannot show what the regime is about. given: octaves
    between which minus the log decay is log-uniform; None where the events alone say what it is. biased: whether dt_bias is drawn, else
    it is zero. events: replaces some of what was drawn.
    """

    A_log: Span = (0.0, 2.75)
    classic: Span | None
    bounded: Span | None
    given: tuple[int, int] | None
    biased: bool = True
    events: Events | None = None

    def span(self, variant: DeltaVariant) -> Span | None:
        """Of the raw gate, bias included, of a form that computes its gate."""
        return self.classic if variant.gate == "classic" else self.bounded

    def bias_of(self, stream: Stream, shape: tuple[int, ...], variant: DeltaVariant) -> Floats:
        """dt_bias: the middle half of the span, so that bias and deviation together stay inside."""
        span = self.span(variant)
        assert span is not None
        quarter = (span[1] - span[0]) / 4
        return stream.uniform("bias", shape, span[0] + quarter, span[1] - quarter) if self.biased else np.zeros(shape)

    def raw_of(self, stream: Stream, shape: tuple[int, ...], variant: DeltaVariant) -> Floats:
        """The gate before its bias, or the log decay: [tokens, heads] or [tokens, heads, state_dim]."""
        if variant.gate == "given":
            raw = np.zeros(shape) if self.given is None else -stream.octaves("g", shape, *self.given)
        else:
            span = self.span(variant)
            assert span is not None
            low, high = span
            quarter = (high - low) / 4
            raw = stream.uniform("g", shape, -quarter, quarter) if variant.bias and self.biased else stream.uniform("g", shape, low, high)
        return raw if self.events is None else self.events(stream, raw, variant)


def _one_in_eight(stream: Stream, raw: Floats) -> np.ndarray:
    """bool: one token in eight, at another one for each head and channel."""
    phase = stream.integers("one in eight", raw.shape[1:], 0, 8)
    token = np.arange(raw.shape[0]).reshape(-1, *[1] * (raw.ndim - 1))
    return np.asarray((token + phase) % 8 == 0)


def _spikes(stream: Stream, raw: Floats, variant: DeltaVariant) -> Floats:
    """A log decay near -60, or as low as the form allows."""
    value = {"given": -60.0, "classic": 23.25 if variant.bias else 15.0, "lower_bound": 64.0}[variant.gate]
    return np.where(_one_in_eight(stream, raw), value, raw)


def _extremes(stream: Stream, raw: Floats, variant: DeltaVariant) -> Floats:
    """One of the listed values at every place."""
    near_20 = [20 - _ULP, 20.0, 20 + _ULP]
    listed = [0.0, -(2.0**-25), -(2.0**-17), -20.0, -88.0, -1e4] if variant.gate == "given" else [-30.0, -17.0, -12.0, *near_20, 88.0, 1e4]
    return np.array(listed)[stream.integers("extreme", raw.shape, 0, len(listed))]


def _shut(stream: Stream, raw: Floats, variant: DeltaVariant) -> Floats:
    """A log decay of exactly 0 everywhere."""
    return np.full_like(raw, 0.0 if variant.gate == "given" else _SHUT)


def _some_shut(stream: Stream, raw: Floats, variant: DeltaVariant) -> Floats:
    """A log decay of exactly 0 at every other place."""
    return np.where(stream.integers("shut", raw.shape, 0, 2) == 0, _shut(stream, raw, variant), raw)


TRAINED = DeltaGates(classic=(-6.875, -2.25), bounded=(-2.0, -0.25), given=(-10, -1))
FAST = DeltaGates(A_log=(2.125, 2.1875), classic=(-1.5, -0.4375), bounded=(-0.0625, 0.1875), given=(1, 2))
SLOW = DeltaGates(A_log=(0.0, 0.6875), classic=(-9.875, -9.25), bounded=(-10.5, -9.5), given=(-15, -12))
DECAY_ONE = DeltaGates(classic=(0, 0), bounded=(0, 0), given=None, biased=False, events=_shut)
SPIKE = DeltaGates(A_log=(1.3125, 1.4375), classic=(-8.5, -8.0), bounded=(-2.5, -2.0), given=(-10, -9), events=_spikes)
EXTREME = DeltaGates(A_log=(-8.25, -2.75), classic=(0, 0), bounded=(0, 0), given=None, biased=False, events=_extremes)
BEND = DeltaGates(A_log=(-4.125, -2.125), classic=(-4, 14), bounded=None, given=None)
SUBNORMAL = DeltaGates(A_log=(2.0, 2.125), classic=(1.25, 1.5), bounded=(8, 9), given=(3, 4), biased=False)
ERASE = DeltaGates(A_log=(2.078125, 2.0859375), classic=(32, 33), bounded=None, given=(8, 9), biased=False)
ZEROS = DeltaGates(classic=(-6.875, -2.25), bounded=(-2.0, -0.25), given=(-10, -1), biased=False, events=_some_shut)


# -- beta: of each law a number before the sigmoid, or beta itself


def random(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Normals of variance 1; given, uniform over what beta can be."""
    return stream.uniform("b", shape, 2.0**-10, 1.0) if variant.beta == "given" else stream.normal("b", shape)


def closed(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta is 0: tokens only decay the state."""
    return np.full(shape, 0.0 if variant.beta == "given" else _SHUT)


def faint(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta down to 6e-8."""
    return stream.octaves("b", shape, -24, -12) if variant.beta == "given" else stream.uniform("b", shape, -16.5, -8.0)


def near_halves(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta near 1/2 (1 where doubled): where a token taken twice and one taken once leave each other's share behind."""
    middle = 0.5 if variant.beta == "given" else 0.0
    return middle + stream.uniform("b", shape, -(2.0**-6), 2.0**-6)


def top(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta near the most it can be: 1, or 2 where doubled, where the state turns its sign along the key."""
    return 1.0 - stream.octaves("b", shape, -12, -4) if variant.beta == "given" else stream.uniform("b", shape, 3.0, 9.0)


def switched(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta of exactly 0, exactly 1/2 and 1, or twice that, at random."""
    listed = np.array([0.0, 0.5, 1.0] if variant.beta == "given" else [_SHUT, 0.0, -_SHUT])
    return listed[stream.integers("b", shape, 0, 3)]


def even(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta is exactly 1, or 2 where doubled."""
    return np.full(shape, 1.0 if variant.beta == "given" else -_SHUT)


def halves(stream: Stream, shape: tuple[int, int], variant: DeltaVariant) -> Floats:
    """Beta is exactly 1/2, or 1 where doubled."""
    return np.full(shape, 0.5 if variant.beta == "given" else 0.0)
