"""Exact: on representable inputs every right kernel gives the rational answer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.events import Forward
from replaycheck.cases.schedule import restarted
from replaycheck.contract.claims import Claims
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.layer import DeltaLayer, Mamba2Layer, Mamba2Tokens
from replaycheck_reference.variant import Mamba2Variant

from .compare import Difference, measured
from .dyadic import Dyadic
from .exact_delta import delta_answer

__all__ = ["answer", "check", "owed", "representable"]

_SOFTPLUS_IS_IDENTITY = 30.0      # softplus(x) exceeds x by less than e^-x: from here on less than a quarter ulp of x in any format used


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """The case with representable inputs (small integers, decay exactly 1) against the recurrence in integer arithmetic.

    Nothing is rounded on the way, in any order and any format, so every kernel owes every number; a zero may have either sign.
    Where the kernel does not promise that softplus is the identity at these dt, softplus is off.
    """
    if not owed(source.claims):
        return []
    if isinstance(case.variant, Mamba2Variant) and not _identity(source.claims):
        case = replace(case, variant=replace(case.variant, softplus=False))
    drawn = representable(case)
    if drawn is None:
        return []
    play = source.play(drawn)
    difference = Difference()
    for (request, layer), outputs in play.outputs.items():
        exact, states = answer(drawn, request, layer)
        common = min(len(outputs), len(exact))
        difference.add(_one_zero(outputs[:common]), exact[:common], ("token", "head", "row"), request=request, layer=layer, what="output")
        for position, bits in play.published[request, layer]:
            difference.add(_one_zero(bits), states[position], ("head", "row", "column"),
                           request=request, layer=layer, token=position - 1, what="state")
    return measured("exact", difference, [play], relation="from the rational answer",
                    promise="small integers and a decay of exactly 1: nothing rounds, so the answer is the rational one")


def owed(claims: Claims) -> bool:
    """Whether the kernel can be given a dt that it promises to use exactly."""
    return claims.recurrence != "mamba2" or _identity(claims) or "no_softplus" in claims.features


def _identity(claims: Claims) -> bool:
    from_ = claims.policy.softplus.identity_from
    return from_ is not None and from_ <= _SOFTPLUS_IS_IDENTITY


def representable(case: Case) -> Case | None:
    """The case in the regime "representable", ungated; None if nothing is left of its schedule, which is cut before a number would outgrow
    the formats."""
    variant = case.variant
    if isinstance(variant, Mamba2Variant):
        variant = replace(variant, gated=False, decay_parameter="A", dt_limits=None)
    named = replace(case, schedule=()) if case.law.exact else replace(case, name=f"{case.name}, representable", schedule=(),
                                                                      regime="representable", variant=variant, recording=None)
    schedule = restarted(case.schedule, "random")
    while any(isinstance(op, Forward) for op in schedule):
        try:
            return replace(named, schedule=schedule)
        except ValueError:
            schedule = schedule[:-1]
    return None


def answer(case: Case, request: int, layer: int) -> tuple[Tensor, list[Tensor]]:
    """The outputs [tokens, heads, head_dim] of a request and its states [heads, head_dim, state_dim] at positions 0..tokens: float64.

    Raises ValueError naming the number where the inputs are not exact ones: a decay other than 1, or a softplus that would round.
    """
    parameters = case.layer(layer)
    if isinstance(parameters, DeltaLayer):
        return delta_answer(parameters, case.start(request, layer), case.tokens(request, layer))
    assert isinstance(parameters, Mamba2Layer) and isinstance(case.variant, Mamba2Variant)
    if bool((parameters.decay != 0).any()) or case.variant.decay_parameter != "A" or case.variant.gated:
        raise ValueError(f"exact inputs need an ungated layer and a decay of 1, got {case.variant} and decay {parameters.decay.tolist()}")
    group, tokens, start = parameters.group_of_head(), case.tokens(request, layer), case.start(request, layer)
    assert isinstance(tokens, Mamba2Tokens)
    skip = parameters.skip_of_rows()
    state = Dyadic.of(torch.zeros(parameters.state_shape) if start is None else start)
    outputs, states = [torch.empty(0, case.heads, case.head_dim, dtype=torch.float64)], [state.to_float64()]
    for t in range(len(tokens)):
        x, B, C = Dyadic.of(tokens.x[t]), Dyadic.of(tokens.B[t][group]), Dyadic.of(tokens.C[t][group])
        state = state + (_dt(parameters, tokens.dt[t]) * x)[:, :, None] * B[:, None, :]
        y = (state * C[:, None, :]).sum(-1)
        if skip is not None:
            y = y + Dyadic.of(skip) * x
        outputs.append(y.to_float64()[None])
        states.append(state.to_float64())
    return torch.cat(outputs), states


def _dt(layer: Mamba2Layer, raw: Tensor) -> Dyadic:
    """dt [heads, 1] of one token."""
    dt = Dyadic.of(raw) if layer.dt_bias is None else Dyadic.of(raw) + Dyadic.of(layer.dt_bias)
    smallest = float(dt.to_float64().min())
    if layer.variant.softplus and smallest < _SOFTPLUS_IS_IDENTITY:
        raise ValueError(f"exact inputs need raw dt of at least {_SOFTPLUS_IS_IDENTITY:g} where softplus is on, got {smallest}")
    return dt[:, None]


def _one_zero(values: Tensor) -> Tensor:
    """float64, -0 as 0: the sign of a zero depends on the order of the sum."""
    return values.double() + 0.0
