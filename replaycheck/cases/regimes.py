"""Regimes: the families of inputs a kernel is judged on, each with the reason why it exists."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DELTA_REGIMES", "PROBES", "RECORDED", "REGIMES", "Regime", "regime"]


@dataclass(frozen=True, kw_only=True)
class Regime:
    """One kind of inputs, whatever the recurrence; the laws are those of its family. description: why it exists, in one line.

    exact: every number that a kernel may form is a small integer times a power of two, and the decay is exactly 1.
    """

    name: str
    description: str
    exact: bool = False


#: By name.
REGIMES: dict[str, Regime] = {
    made.name: made
    for made in (
        Regime(name="trained-like", description="A and dt as a model starts training with: what a kernel meets on an ordinary day"),
        Regime(name="fast",
               description="decay 0.01 to 0.14 a token: old tokens must vanish at the right rate and weights span many octaves"),
        Regime(name="slow",
               description="decay near 0.9999: errors of decay and state add up over thousands of tokens and are seen in no single output"),
        Regime(name="decay-one",
               description="A = -0, decay exactly 1: nothing is forgotten, and a decay that is not 1 shows at once"),
        Regime(name="spike",
               description="one z near -60, then tiny ones: differences of cumulative sums lose the small decays after the large one"),
        Regime(name="extreme-dt",
               description="raw dt of -30, -17, -12, 20 +- ulp, 88, 1e4: the branches and overflows of softplus and of the gate"),
        Regime(name="bend",
               description="raw dt of -4 to 14, slow decay: where softplus is neither e^x nor x, and a branch taken too early shows"),
        Regime(name="positive",
               description="x, B, C and start state >= 0: nothing cancels, so sums reach the bound of their order and stagnation shows"),
        Regime(name="sparse",
               description="most tokens zero, the others single entries: each output names the token, row and column it came from"),
        Regime(name="outlier",
               description="one row 1000 times larger: a scale or tolerance shared between rows hides errors of the others"),
        Regime(name="subnormal",
               description="x = 0, z from -110 to -80 at once or in steps: the state decays through the fp32 subnormals, flushed or not"),
        Regime(name="faint",
               description="dt down to 6e-8 from an empty state: nothing outweighs a token whose dt is relatively wrong or lost"),
        Regime(name="erase",
               description="decay 0: the state is the last token alone, one product that shows the precision it was formed in"),
        Regime(name="readout",
               description="x = 0, decay exactly 1: the output is the readout of the start state alone, and shows its precision"),
        Regime(name="representable", exact=True,
               description="small integers, decay exactly 1: every order gives the rational answer, so one wrong bit is a fault"),
    )
}


#: Regimes of the delta rules alone: what is peculiar to their keys, betas and gates. By name.
DELTA_REGIMES: dict[str, Regime] = {
    made.name: made
    for made in (
        Regime(name="gate-zeros", description="log decay exactly 0 at every other place: a logarithm or a quotient of decays shows"),
        Regime(name="beta-ends",
               description="beta exactly 0, 1/2 and 1: tokens that leave no trace, half or the whole of what was there"),
        Regime(name="beta-half", description="one key, beta near 1/2: a token taken twice or not at all, old and new in equal parts"),
        Regime(name="beta-top", description="beta near 1, or 2 where doubled: what was along the key is erased, or turns its sign"),
        Regime(name="key-collinear", description="keys along one line, nearly: each token predicts what the last one wrote, and cancels"),
        Regime(name="key-repeated",
               description="the same key at every token: a delta that sees an older state adds up instead of replacing"),
        Regime(name="key-alternating", description="one key of turning sign: insertion and prediction must take the sign of the same key"),
        Regime(name="key-zero", description="keys or queries of zero: a norm divides nothing by its eps, and nothing is inserted"),
        Regime(name="key-tiny", description="norms of 2^-14 to 2^-6, around the root of eps: inside the root, outside or a maximum differ"),
        Regime(name="key-one-hot", description="keys of one entry: each output names the token and column that it came from"),
    )
}

#: Regimes in which one term of a policy stands alone: for inference, in no suite. By name.
PROBES: dict[str, Regime] = {
    made.name: made
    for made in (
        Regime(name="probe-product",
               description="decay 0, dt exact in every format: a token is two products, inexact in every format but the widest"),
        Regime(name="probe-sums",
               description="x = 0, decay exactly 1, start state and C >= 0: the output is one sum in which nothing cancels"),
        Regime(name="probe-dt",
               description="decay exactly 1, raw dt of -16 to 14, from an empty state: the weight of a token is its dt"),
        Regime(name="probe-identity",
               description="decay exactly 1, x and B of one entry 1, raw dt from 20 on: the state is dt itself, bit for bit"),
    )
}

#: The regime of cases whose inputs come from a recording: nothing is drawn.
RECORDED = Regime(name="recorded", description="what the layers of a model received: decays, gates and activations with structure")


def regime(name: str) -> Regime:
    """The regime of that name. Raises ValueError listing the known ones."""
    if name == RECORDED.name:
        return RECORDED
    found = REGIMES.get(name) or DELTA_REGIMES.get(name) or PROBES.get(name)
    if found is None:
        raise ValueError(f"regime {name!r} is not known; known are {', '.join((*REGIMES, *DELTA_REGIMES))}")
    return found
