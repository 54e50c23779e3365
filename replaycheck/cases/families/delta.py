"""The delta rules: Gated DeltaNet, a decay a head, and Kimi Delta Attention, one a head and key channel: one mathematics, two families."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.variant import DeltaVariant

from ..layers import Geometry
from ..stream import Floats, Stream
from . import delta_gates as rate
from . import delta_values as value
from . import mamba2_values as start
from .family import Family, Shapes, scale_of, tensor

__all__ = ["GDN", "KDA", "LAWS", "DeltaLaw"]

_LEAST_BITS = 8     # of the significand of the narrowest format


@dataclass(frozen=True, kw_only=True)
class DeltaLaw:
    """Laws of the inputs in one regime: see the modules of gates and of values.

    exact: decay exactly 1, beta 1/2 (1 where doubled), one-hot keys and queries, a scale that is a power of two: every number that a
    kernel may form is a small integer times a power of two.
    """

    gates: rate.DeltaGates = rate.TRAINED
    beta: rate.BetaLaw = rate.random
    values: value.DeltaValueLaw = value.normal
    start: start.StartLaw = start.normal_start
    exact: bool = False


#: By regime.
LAWS = {
    "trained-like": DeltaLaw(),
    "fast": DeltaLaw(gates=rate.FAST),
    "slow": DeltaLaw(gates=rate.SLOW),
    "decay-one": DeltaLaw(gates=rate.DECAY_ONE),
    "spike": DeltaLaw(gates=rate.SPIKE),
    "extreme-dt": DeltaLaw(gates=rate.EXTREME),
    "bend": DeltaLaw(gates=rate.BEND),
    "positive": DeltaLaw(values=value.positive, start=start.positive_start),
    "sparse": DeltaLaw(values=value.single_entries),
    "outlier": DeltaLaw(values=value.one_channel, start=start.one_channel_start),
    "subnormal": DeltaLaw(gates=rate.SUBNORMAL, beta=rate.closed, values=value.nothing),
    "faint": DeltaLaw(beta=rate.faint, start=start.no_start),
    "erase": DeltaLaw(gates=rate.ERASE),
    "readout": DeltaLaw(gates=rate.DECAY_ONE, beta=rate.closed, values=value.nothing),
    "representable": DeltaLaw(gates=rate.DECAY_ONE, beta=rate.halves, values=value.exact, start=start.exact_start, exact=True),
    "gate-zeros": DeltaLaw(gates=rate.ZEROS),
    "beta-ends": DeltaLaw(beta=rate.switched),
    "beta-half": DeltaLaw(beta=rate.near_halves, values=value.repeated),
    "beta-top": DeltaLaw(beta=rate.top),
    "key-collinear": DeltaLaw(values=value.collinear),
    "key-repeated": DeltaLaw(values=value.repeated),
    "key-alternating": DeltaLaw(values=value.alternating),
    "key-zero": DeltaLaw(values=value.zero_keys),
    "key-tiny": DeltaLaw(values=value.tiny_keys),
    "key-one-hot": DeltaLaw(values=value.one_hot_keys),
    "probe-product": DeltaLaw(gates=rate.ERASE, beta=rate.even),
    "probe-sums": DeltaLaw(gates=rate.DECAY_ONE, beta=rate.closed, values=value.positive, start=start.positive_start),
}


def _needs(variant: DeltaVariant, geometry: Geometry) -> dict[str, bool]:
    return {
        "groups": geometry.groups > 1, "bias": variant.bias, "no_A_log": variant.gate != "given" and not variant.A_log,
        "lower_bound": variant.gate == "lower_bound", "doubled": variant.beta == "doubled", "norm_outside": variant.norm == "outside",
        "norm_max": variant.norm == "max", "norm_off": variant.norm == "off",
    }


def _forms(features: Collection[str], entry: str, *, channels: bool) -> list[DeltaVariant]:
    if entry == "given":
        base = DeltaVariant(channels=channels, gate="given", A_log=False, bias=False, beta="given")
    else:
        base = DeltaVariant(channels=channels, bias="bias" in features)
    found = [base]
    if entry == "raw" and "lower_bound" in features:
        found.append(replace(base, gate="lower_bound"))
    if entry == "raw" and "no_A_log" in features:
        found.append(replace(base, A_log=False, gate="lower_bound" if "lower_bound" in features else "classic"))
    if entry == "raw" and "doubled" in features:
        found.append(replace(base, beta="doubled"))
    if "norm_outside" in features:
        found.append(replace(base, norm="outside"))
    if "norm_max" in features:
        found.append(replace(base, norm="max", eps=float(np.float32(1e-12))))
    if "norm_off" in features:
        found.append(replace(base, norm="off"))
    if base.bias:
        found.append(replace(base, bias=False))
    return found


def _gate_shape(geometry: Geometry, variant: DeltaVariant) -> tuple[int, ...]:
    return (geometry.heads, geometry.state_dim) if variant.channels else (geometry.heads,)


def _parameters(geometry: Geometry, variant: DeltaVariant) -> Shapes:
    made: Shapes = {"A_log": (geometry.heads,)} if variant.A_log else {}
    return {**made, "dt_bias": _gate_shape(geometry, variant)} if variant.bias else made


def _received(geometry: Geometry, variant: DeltaVariant) -> Shapes:
    narrow = (geometry.groups, geometry.state_dim)
    return {"q": narrow, "k": narrow, "v": (geometry.heads, geometry.head_dim), "g": _gate_shape(geometry, variant), "b": (geometry.heads,)}


def _check(regime: str, geometry: Geometry, variant: DeltaVariant, tokens: int) -> None:
    if regime not in LAWS:
        raise ValueError(f"regime {regime!r} has no meaning for a delta rule")
    law = LAWS[regime]
    if variant.gate != "given" and law.gates.span(variant) is None:
        raise ValueError(f"regime {regime!r} needs another variant.gate than {variant.gate!r}, which cannot show it")
    if variant.gate == "given" and law.gates is rate.BEND:
        raise ValueError(f"regime {regime!r} needs a variant whose gate is computed: it is about nothing else")
    if law.exact and value.bits(geometry, tokens) > _LEAST_BITS:
        raise ValueError(f"regime {regime!r} cannot keep {tokens} tokens within {_LEAST_BITS} bits at state_dim {geometry.state_dim}")


def _scale(law: DeltaLaw, geometry: Geometry) -> float:
    """state_dim^-1/2, correctly rounded; where the regime is exact the power of two next to it."""
    if law.exact:
        return float(2.0 ** -(geometry.state_dim.bit_length() // 2))
    return scale_of(geometry.state_dim)


def _layer(law: DeltaLaw, stream: Stream, geometry: Geometry, variant: DeltaVariant) -> DeltaLayer:
    shapes = _parameters(geometry, variant)
    return DeltaLayer(
        heads=geometry.heads, head_dim=geometry.head_dim, state_dim=geometry.state_dim, groups=geometry.groups, variant=variant,
        scale=_scale(law, geometry),
        A_log=tensor(stream.uniform("A_log", shapes["A_log"], *law.gates.A_log)) if variant.A_log else None,
        dt_bias=tensor(law.gates.bias_of(stream, shapes["dt_bias"], variant)) if variant.bias else None,
    )


def _tokens(law: DeltaLaw, stream: Stream, geometry: Geometry, tokens: int, variant: DeltaVariant) -> dict[str, Floats]:
    made = law.values(stream, geometry, tokens, variant)
    return {"q": made.q, "k": made.k, "v": made.v,
            "g": law.gates.raw_of(stream, (tokens, *_gate_shape(geometry, variant)), variant),
            "b": law.beta(stream, (tokens, geometry.heads), variant)}


def _family(description: str, *, channels: bool) -> Family:
    return Family(
        description=description, variant=DeltaVariant, layer=DeltaLayer, tokens=DeltaTokens, plain={"channels": channels}, needs=_needs,
        forms=partial(_forms, channels=channels), parameters=_parameters, received=_received, processed=("g", "b"),
        numbers=("scale",), recorded={"heads": "value_heads", "groups": "heads", "head_dim": "value_dim", "state_dim": "key_dim", "g": "a"},
        laws=LAWS, check=_check,
        draw_layer=_layer, draw_start=lambda law, stream, geometry: law.start(stream, geometry), draw_tokens=_tokens,
    )


GDN = _family("S <- e^g S, d = beta (v - S k), S <- S + d k^T, o = S q; a decay per head, k and q divided by their norms", channels=False)
KDA = _family("S <- S diag(e^g), d = beta (v - S k), S <- S + d k^T, o = S q; a decay per head and key channel", channels=True)
