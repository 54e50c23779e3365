"""Exact: on representable inputs every right kernel gives the rational answer."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.events import Forward
from replaycheck.cases.schedule import restarted
from replaycheck.contract.claims import Claims
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from . import rational_delta, rational_mamba2
from .compare import Difference, measured
from .rational import Rational

__all__ = ["answer", "check", "owed", "representable"]

_RATIONAL = {"mamba2": rational_mamba2.RATIONAL, "gdn": rational_delta.RATIONAL, "kda": rational_delta.RATIONAL}


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """The case with representable inputs (small integers, decay exactly 1) against the recurrence in integer arithmetic.

    Nothing is rounded on the way, in any order and any format, so every kernel owes every number; a zero may have either sign.
    Where the kernel does not promise to use such gates exactly, the form is one in which it has none to work out.
    """
    if not owed(source.claims):
        return []
    drawn = representable(replace(case, variant=_rational(case.recurrence).promised(case.variant, source.claims)))
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
    """Whether the kernel can be given gates that it promises to use exactly."""
    return _rational(claims.recurrence).owed(claims)


def _rational(recurrence: str) -> Rational:
    return _RATIONAL[recurrence]


def representable(case: Case) -> Case | None:
    """The case in the regime "representable", in a form in which nothing rounds; None if nothing is left of its schedule, which is cut
    before a number would outgrow the formats."""
    variant = _rational(case.recurrence).form(case.variant)
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

    Raises ValueError naming the number where the inputs are not exact ones: a decay other than 1, or a function that would round.
    """
    return _rational(case.recurrence).answer(case.layer(layer), case.start(request, layer), case.tokens(request, layer))


def _one_zero(values: Tensor) -> Tensor:
    """float64, -0 as 0: the sign of a zero depends on the order of the sum."""
    return values.double() + 0.0
