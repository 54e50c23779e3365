"""Small problems of the delta rules for the reference, and how far float64 may be from their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from delta_windows import KEYS, window
from hypothesis import strategies as st
from torch import Tensor

from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.recurrences.batched.delta import DeltaTerms, decompose
from replaycheck_reference.variant import DeltaVariant
from replaycheck_reference.variant.numbers import as_fp32

__all__ = ["U", "DeltaProblem", "allowed", "moduli", "problem", "problems", "variants"]

U = 2.0**-53


@dataclass(frozen=True)
class DeltaProblem:
    """What a reference is given: start is [heads, head_dim, state_dim] fp32."""

    layer: DeltaLayer
    start: Tensor
    tokens: DeltaTokens

    def terms(self) -> DeltaTerms:
        return decompose(self.layer, self.start, self.tokens)

    def with_tokens(self, **tensors: Tensor) -> DeltaProblem:
        return replace(self, tokens=replace(self.tokens, **tensors))


def variants(**fixed: Any) -> st.SearchStrategy[DeltaVariant]:
    """Every form; `fixed` fields are as given."""
    flag = st.booleans()

    def build(channels: bool, gate: str, A_log: bool, bias: bool, beta: str, norm: str, eps: float) -> DeltaVariant:
        computed = gate != "given"
        return replace(
            DeltaVariant(channels=channels, gate=gate, A_log=A_log and computed, bias=bias and computed,  # type: ignore[arg-type]
                         beta=beta, norm=norm, eps=eps), **fixed,  # type: ignore[arg-type]
        )

    return st.builds(
        build, flag, st.sampled_from(("classic", "lower_bound", "given")), flag, flag, st.sampled_from(("sigmoid", "doubled", "given")),
        st.sampled_from(("inside", "outside", "max", "off")), st.sampled_from((as_fp32(1e-6), 0.125)),
    )


@st.composite
def problems(draw: st.DrawFn, *, most_tokens: int = 6, **fixed: Any) -> DeltaProblem:
    """4 heads of 3 x 6 in 2 groups; all kinds of keys, decays from 1 to e^-20 a token and beyond, beta from 0 to near its top."""
    variant = draw(variants(**fixed))
    beta = draw(st.sampled_from((None, 0.0, 1.0) if variant.beta == "given" else (None, -1e4, 0.0, 9.0)))
    gate = draw(st.sampled_from((None, 0.0, -20.0) if variant.gate == "given" else (None, -1e4, 5.0)))
    return problem(tokens=draw(st.integers(1, most_tokens)), variant=variant, keys=draw(st.sampled_from(KEYS)), beta=beta, gate=gate,
                   seed=draw(st.integers(0, 2**32 - 1)))


def problem(*, tokens: int = 6, variant: DeltaVariant | None = None, seed: int = 0, **data: Any) -> DeltaProblem:
    return DeltaProblem(*window(seed, tokens, variant=variant or DeltaVariant(), **data))


def moduli(given: DeltaProblem) -> tuple[Tensor, Tensor]:
    """Sums of the moduli of the terms that the recurrence multiplies out to: outputs [tokens, heads, head_dim] and end state, float64."""
    terms, outputs = given.terms(), []
    state = given.start.double().abs()
    for m in range(len(given.tokens)):
        k, decayed = terms.k[m].abs(), state * torch.exp(terms.log_decay[m])[:, None, :]
        delta = terms.beta[m].abs()[:, None] * (terms.v[m].abs() + torch.einsum("hpn,hn->hp", decayed, k))
        state = decayed + delta[:, :, None] * k[:, None, :]
        outputs.append(torch.einsum("hpn,hn->hp", state, terms.q[m].abs()))
    return torch.stack(outputs), state


def allowed(given: DeltaProblem) -> tuple[Tensor, Tensor]:
    """A bound on float64's error, outputs and end state.

    At each token a term passes a decay, whose exponent is off by some units of itself and of what the gate is made of, and at most one
    beta, two keys and a dot product; an output adds a query and one more dot product. The moduli of all terms bound what they add up to.
    """
    terms, layer = given.terms(), given.layer
    A_log = 0.0 if layer.A_log is None else layer.A_log.double().abs()[:, None]
    gate = terms.log_decay.abs() * (16 + A_log + terms.raw.abs() * (1 + terms.rate[:, None]))
    units = (gate.amax(-1) + terms.raw_beta.abs() + 2 * layer.state_dim + 40).cumsum(0)  # [tokens, heads]
    outputs, end = moduli(given)
    floor = 1e-300  # results of underflow
    return (units + 2 * layer.state_dim + 20)[:, :, None] * U * outputs + floor, units[-1, :, None, None] * U * end + floor
