"""Regimes: the families of inputs a kernel is judged on, each with the reason why it exists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replaycheck_reference.variant import Mamba2Variant

from . import gates as rate
from . import values as value
from .layers import Geometry
from .stream import Floats, Stream

__all__ = ["PROBES", "RECORDED", "REGIMES", "Regime", "regime"]


@dataclass(frozen=True, kw_only=True)
class Regime:
    """Laws of the inputs. description: why the regime exists, in one line. gates, values, start: see those modules.

    exact: every number that a kernel may form is a small integer times a power of two, and the decay is exactly 1.
    softplus: the regime is about softplus, and there is none without it.
    """

    name: str
    description: str
    gates: rate.Gates = rate.TRAINED
    values: value.ValueLaw = value.normal
    start: value.StartLaw = value.normal_start
    exact: bool = False
    softplus: bool = False

    def check(self, geometry: Geometry, variant: Mamba2Variant, tokens: int) -> None:
        """Raises ValueError naming regime and value where it cannot be drawn for this variant, geometry or number of tokens."""
        if self.gates.A_log is None and variant.decay_parameter != "A":
            raise ValueError(f"regime {self.name!r} needs decay_parameter 'A', got {variant.decay_parameter!r}: no A_log gives decay 1")
        if self.softplus and not variant.softplus:
            raise ValueError(f"regime {self.name!r} needs a variant with softplus True: it is about nothing else")
        if self.exact and variant.gated:
            raise ValueError(f"regime {self.name!r} needs a variant with gated False: z * sigmoid(z) is not representable")
        if self.exact and variant.dt_limits is not None:
            raise ValueError(f"regime {self.name!r} needs a variant without dt_limits, got {variant.dt_limits}: its dt is exact")
        if self.exact and value.magnitude(geometry, tokens) > 256:
            raise ValueError(f"regime {self.name!r} cannot keep {tokens} tokens below 256 at state_dim {geometry.state_dim}")

    def skip(self, stream: Stream, shape: tuple[int, ...]) -> Floats:
        """D: [heads] or [heads, head_dim]; 1 or 2 where the regime is exact, else 1 +- 1/2."""
        if self.exact:
            return stream.integers("D", shape, 1, 3).astype(np.float64)
        return stream.uniform("D", shape, 0.5, 1.5)


#: By name.
REGIMES: dict[str, Regime] = {
    made.name: made
    for made in (
        Regime(name="trained-like", description="A and dt as a model starts training with: what a kernel meets on an ordinary day"),
        Regime(name="fast", gates=rate.FAST,
               description="decay 0.01 to 0.14 a token: old tokens must vanish at the right rate and weights span many octaves"),
        Regime(name="slow", gates=rate.SLOW,
               description="decay near 0.9999: errors of decay and state add up over thousands of tokens and are seen in no single output"),
        Regime(name="decay-one", gates=rate.DECAY_ONE,
               description="A = -0, decay exactly 1: nothing is forgotten, and a decay that is not 1 shows at once"),
        Regime(name="spike", gates=rate.SPIKE,
               description="one z near -60, then tiny ones: differences of cumulative sums lose the small decays after the large one"),
        Regime(name="extreme-dt", gates=rate.EXTREME, values=value.extreme,
               description="raw dt of -30, -17, -12, 20 +- ulp, 88, 1e4: the branches and overflows of softplus and of the gate"),
        Regime(name="bend", gates=rate.BEND, softplus=True,
               description="raw dt of -4 to 14, slow decay: where softplus is neither e^x nor x, and a branch taken too early shows"),
        Regime(name="positive", values=value.positive, start=value.positive_start,
               description="x, B, C and start state >= 0: nothing cancels, so sums reach the bound of their order and stagnation shows"),
        Regime(name="sparse", values=value.single_entries,
               description="most tokens zero, the others single entries: each output names the token, row and column it came from"),
        Regime(name="outlier", values=value.one_channel, start=value.one_channel_start,
               description="one row 1000 times larger: a scale or tolerance shared between rows hides errors of the others"),
        Regime(name="subnormal", gates=rate.SUBNORMAL, values=value.nothing,
               description="x = 0, z from -110 to -80 at once or in steps: the state decays through the fp32 subnormals, flushed or not"),
        Regime(name="faint", gates=rate.FAINT, start=value.no_start,
               description="dt down to 6e-8 from an empty state: nothing outweighs a token whose dt is relatively wrong or lost"),
        Regime(name="erase", gates=rate.ERASE,
               description="decay 0: the state is the last token alone, one product that shows the precision it was formed in"),
        Regime(name="readout", gates=rate.DECAY_ONE, values=value.nothing,
               description="x = 0, decay exactly 1: the output is the readout of the start state alone, and shows its precision"),
        Regime(name="representable", gates=rate.EXACT, values=value.exact, start=value.exact_start, exact=True,
               description="small integers, decay exactly 1: every order gives the rational answer, so one wrong bit is a fault"),
    )
}


#: Regimes in which one term of a policy stands alone: for inference, in no suite. By name.
PROBES: dict[str, Regime] = {
    made.name: made
    for made in (
        Regime(name="probe-product", gates=rate.ODD,
               description="decay 0, dt exact in every format: a token is two products, inexact in every format but the widest"),
        Regime(name="probe-sums", gates=rate.DECAY_ONE, values=value.nothing_positive, start=value.positive_start,
               description="x = 0, decay exactly 1, start state and C >= 0: the output is one sum in which nothing cancels"),
        Regime(name="probe-dt", gates=rate.DT, start=value.no_start,
               description="decay exactly 1, raw dt of -16 to 14, from an empty state: the weight of a token is its dt"),
        Regime(name="probe-identity", gates=rate.IDENTITY, values=value.units, start=value.no_start, softplus=True,
               description="decay exactly 1, x and B of one entry 1, raw dt from 20 on: the state is dt itself, bit for bit"),
    )
}

#: The regime of cases whose inputs come from a recording: nothing is drawn.
RECORDED = Regime(name="recorded", description="what the layers of a model received: decays, gates and activations with structure")


def regime(name: str) -> Regime:
    """The regime of that name. Raises ValueError listing the known ones."""
    if name == RECORDED.name:
        return RECORDED
    found = REGIMES.get(name) or PROBES.get(name)
    if found is None:
        raise ValueError(f"regime {name!r} is not known; known are {', '.join(REGIMES)}")
    return found
