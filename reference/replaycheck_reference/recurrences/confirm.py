"""One element computed by itself, to many digits: what a report quotes for its worst case."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from ..arithmetic import Arb, Arithmetic, Mpmath, Number, available
from ..arithmetic.balls import radius_above
from ..layer import Mamba2Layer, Mamba2Tokens
from .mamba2 import run_row, start_row

__all__ = ["Confirmation", "confirm"]

#: How often the working digits may be doubled until the radius is small beside the value.
_DOUBLINGS = 6


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """An exact value as far as computed.

    engine: "arb" or "mpmath". value: decimal. nearest: the float64 nearest to it. radius: |value - exact| is proven not to exceed it
    (the printed decimals aside); None where the engine proves nothing.
    """

    engine: str
    value: str
    nearest: float
    radius: float | None


def confirm(
    layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, token: int, head: int, row: int, column: int | None,
    *, digits: int = 50,
) -> Confirmation:
    """Output y[token, head, row], or with `column` element [head, row, column] of the state after `token`, by the scalar specification.

    start: [heads, head_dim, state_dim], any float dtype, None is zero. By arb to a proven radius of 10^-digits of the value (at most of
    the terms, where these cancel to nothing), where python-flint is installed; else by mpmath. Raises ValueError naming an index that is
    out of range.
    """
    for name, index, size in (("token", token, len(tokens)), ("head", head, layer.heads), ("row", row, layer.head_dim),
                              ("column", 0 if column is None else column, layer.state_dim)):
        if not 0 <= index < size:
            raise ValueError(f"{name} must be in 0 .. {size - 1}, got {index}")
    prefix = tokens[: token + 1]
    if column is not None:
        layer, start, prefix = _one_column(layer, start, prefix, column)
    if not available():
        engine = Mpmath(digits=digits)
        value = _element(engine, layer, start, prefix, head, row, column)
        return Confirmation(engine="mpmath", value=engine.text(value), nearest=engine.nearest(value), radius=None)
    for doubling in range(_DOUBLINGS):
        balls = Arb(digits=digits << doubling)
        ball = _element(balls, layer, start, prefix, head, row, column)
        if ball.rel_accuracy_bits() >= math.ceil(digits * math.log2(10)):
            break
    return Confirmation(engine="arb", value=Arb(digits=digits).text(ball), nearest=balls.nearest(ball), radius=radius_above(ball))


def _element(
    arithmetic: Arithmetic[Number], layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, head: int, row: int, column: int | None,
) -> Number:
    first = start_row(arithmetic, layer, start, head=head, row=row)
    outputs, state = run_row(arithmetic, layer, first, tokens, head=head, row=row)
    return outputs[-1] if column is None else state[0]


def _one_column(
    layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, column: int,
) -> tuple[Mamba2Layer, Tensor | None, Mamba2Tokens]:
    """The same layer with only one column of the state: columns meet in outputs alone."""
    kept = slice(column, column + 1)
    return (
        replace(layer, state_dim=1),
        None if start is None else start[:, :, kept],
        replace(tokens, B=tokens.B[:, :, kept], C=tokens.C[:, :, kept]),
    )
