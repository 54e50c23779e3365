"""Mamba-2: its forms, the shapes of what a layer holds and receives, and the laws of every regime."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.variant import Mamba2Variant

from ..layers import Geometry
from ..stream import Floats, Stream
from . import mamba2_gates as rate
from . import mamba2_values as value
from .family import Family, Shapes, tensor

__all__ = ["FAMILY", "LAWS", "Mamba2Law"]

#: Within the dt of most regimes, so that both limits are met; with more significand bits than narrow formats have.
_DT_LIMITS = (5461 * 2.0**-20, 10923 * 2.0**-17)


@dataclass(frozen=True, kw_only=True)
class Mamba2Law:
    """Laws of the inputs in one regime: see the modules of gates and of values.

    exact: every number that a kernel may form is a small integer times a power of two, and the decay is exactly 1.
    softplus: the regime is about softplus, and there is none without it.
    """

    gates: rate.Gates = rate.TRAINED
    values: value.ValueLaw = value.normal
    start: value.StartLaw = value.normal_start
    exact: bool = False
    softplus: bool = False

    def skip(self, stream: Stream, shape: tuple[int, ...]) -> Floats:
        """D: [heads] or [heads, head_dim]; 1 or 2 where the regime is exact, else 1 +- 1/2."""
        if self.exact:
            return stream.integers("D", shape, 1, 3).astype(np.float64)
        return stream.uniform("D", shape, 0.5, 1.5)


#: By regime.
LAWS = {
    "trained-like": Mamba2Law(),
    "fast": Mamba2Law(gates=rate.FAST),
    "slow": Mamba2Law(gates=rate.SLOW),
    "decay-one": Mamba2Law(gates=rate.DECAY_ONE),
    "spike": Mamba2Law(gates=rate.SPIKE),
    "extreme-dt": Mamba2Law(gates=rate.EXTREME, values=value.extreme),
    "bend": Mamba2Law(gates=rate.BEND, softplus=True),
    "positive": Mamba2Law(values=value.positive, start=value.positive_start),
    "sparse": Mamba2Law(values=value.single_entries),
    "outlier": Mamba2Law(values=value.one_channel, start=value.one_channel_start),
    "subnormal": Mamba2Law(gates=rate.SUBNORMAL, values=value.nothing),
    "faint": Mamba2Law(gates=rate.FAINT, start=value.no_start),
    "erase": Mamba2Law(gates=rate.ERASE),
    "readout": Mamba2Law(gates=rate.DECAY_ONE, values=value.nothing),
    "representable": Mamba2Law(gates=rate.EXACT, values=value.exact, start=value.exact_start, exact=True),
    "probe-product": Mamba2Law(gates=rate.ODD),
    "probe-sums": Mamba2Law(gates=rate.DECAY_ONE, values=value.nothing_positive, start=value.positive_start),
    "probe-dt": Mamba2Law(gates=rate.DT, start=value.no_start),
    "probe-identity": Mamba2Law(gates=rate.IDENTITY, values=value.units, start=value.no_start, softplus=True),
}


def _needs(variant: Mamba2Variant, geometry: Geometry) -> dict[str, bool]:
    return {
        "bias": variant.bias, "skip": variant.skip, "gated": variant.gated, "groups": geometry.groups > 1,
        "no_softplus": not variant.softplus, "A_log": variant.decay_parameter == "A_log", "skip_rows": variant.skip_rows,
        "dt_limits": variant.dt_limits is not None,
    }


def _forms(features: Collection[str], entry: str) -> list[Mamba2Variant]:
    base = Mamba2Variant(bias="bias" in features, skip="skip" in features)
    found = [base]
    if "gated" in features:
        found.append(replace(base, gated=True))
    if "no_softplus" in features:
        found.append(replace(base, softplus=False))
    if "A_log" in features:
        found.append(replace(base, decay_parameter="A_log"))
    if "skip_rows" in features:
        found.append(replace(base, skip=True, skip_rows=True))
    if "dt_limits" in features:
        found.append(replace(base, dt_limits=_DT_LIMITS))
    if "bias" in features or "skip" in features:
        found.append(replace(base, bias=False, skip=False))
    return found


def _parameters(geometry: Geometry, variant: Mamba2Variant) -> Shapes:
    each = (geometry.heads,)
    made: Shapes = {"decay": each}
    if variant.bias:
        made["dt_bias"] = each
    if variant.skip:
        made["D"] = (geometry.heads, geometry.head_dim) if variant.skip_rows else each
    return made


def _received(geometry: Geometry, variant: Mamba2Variant) -> Shapes:
    wide, narrow = (geometry.heads, geometry.head_dim), (geometry.groups, geometry.state_dim)
    made: Shapes = {"x": wide, "dt": (geometry.heads,), "B": narrow, "C": narrow}
    return {**made, "z": wide} if variant.gated else made


def _check(regime: str, geometry: Geometry, variant: Mamba2Variant, tokens: int) -> None:
    law = LAWS[regime]
    if law.gates.A_log is None and variant.decay_parameter != "A":
        raise ValueError(f"regime {regime!r} needs decay_parameter 'A', got {variant.decay_parameter!r}: no A_log gives decay 1")
    if law.softplus and not variant.softplus:
        raise ValueError(f"regime {regime!r} needs a variant with softplus True: it is about nothing else")
    if law.exact and variant.gated:
        raise ValueError(f"regime {regime!r} needs a variant with gated False: z * sigmoid(z) is not representable")
    if law.exact and variant.dt_limits is not None:
        raise ValueError(f"regime {regime!r} needs a variant without dt_limits, got {variant.dt_limits}: its dt is exact")
    if law.exact and value.magnitude(geometry, tokens) > 256:
        raise ValueError(f"regime {regime!r} cannot keep {tokens} tokens below 256 at state_dim {geometry.state_dim}")


def _layer(law: Mamba2Law, stream: Stream, geometry: Geometry, variant: Mamba2Variant) -> Mamba2Layer:
    shapes = _parameters(geometry, variant)
    return Mamba2Layer(
        heads=geometry.heads, head_dim=geometry.head_dim, state_dim=geometry.state_dim, groups=geometry.groups, variant=variant,
        decay=tensor(law.gates.decay_of(stream, geometry.heads, variant)),
        dt_bias=tensor(law.gates.bias_of(stream, geometry.heads, variant)) if variant.bias else None,
        D=tensor(law.skip(stream, shapes["D"])) if variant.skip else None,
    )


def _tokens(law: Mamba2Law, stream: Stream, geometry: Geometry, tokens: int, variant: Mamba2Variant) -> dict[str, Floats]:
    made = law.values(stream, geometry, tokens, variant)
    raw = law.gates.raw_of(stream, (tokens, geometry.heads), variant)
    drawn = {"x": made.x, "dt": raw, "B": made.B, "C": made.C}
    return {**drawn, "z": made.z} if variant.gated else drawn


FAMILY = Family(
    description="S <- exp(A dt) S + dt x B^T, y = S C + D x; a scalar decay per head",
    variant=Mamba2Variant, layer=Mamba2Layer, tokens=Mamba2Tokens, plain={}, needs=_needs, forms=_forms, parameters=_parameters,
    received=_received, processed=("dt",), laws=LAWS, check=_check, draw_layer=_layer,
    draw_start=lambda law, stream, geometry: law.start(stream, geometry), draw_tokens=_tokens,
)
