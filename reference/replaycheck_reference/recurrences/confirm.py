"""One element computed by itself, to many digits: what a report quotes for its worst case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ..arithmetic import Arb, Arithmetic, Mpmath, Number, available
from ..arithmetic.balls import radius_above
from ..layer import Layer, Tokens
from .rows import start_row

__all__ = ["Confirmation", "RunRow", "confirm"]

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


class RunRow(Protocol):
    """A scalar specification of one row of one head: outputs [tokens] and end state [state_dim] from the state [state_dim] before."""

    def __call__(
        self, arithmetic: Arithmetic[Number], layer: Any, state: Sequence[Number], tokens: Any, /, *, head: int, row: int,
    ) -> tuple[list[Number], list[Number]]: ...


def confirm(
    run_row: RunRow, layer: Layer, start: Tensor | None, tokens: Tokens, token: int, head: int, row: int, column: int | None,
    *, digits: int = 50,
) -> Confirmation:
    """Output [token, head, row], or with `column` element [head, row, column] of the state after `token`, by the scalar specification.

    start: [heads, head_dim, state_dim], any float dtype, None is zero. By arb to a proven radius of 10^-digits of the value (at most of
    the terms, where these cancel to nothing), where python-flint is installed; else by mpmath. Raises ValueError naming an index that is
    out of range.
    """
    for name, index, size in (("token", token, len(tokens)), ("head", head, layer.heads), ("row", row, layer.head_dim),
                              ("column", 0 if column is None else column, layer.state_dim)):
        if not 0 <= index < size:
            raise ValueError(f"{name} must be in 0 .. {size - 1}, got {index}")

    def element(arithmetic: Arithmetic[Number]) -> Number:
        first = start_row(arithmetic, layer, start, head=head, row=row)
        outputs, state = run_row(arithmetic, layer, first, tokens[: token + 1], head=head, row=row)
        return outputs[-1] if column is None else state[column]

    if not available():
        engine = Mpmath(digits=digits)
        value = element(engine)
        return Confirmation(engine="mpmath", value=engine.text(value), nearest=engine.nearest(value), radius=None)
    for doubling in range(_DOUBLINGS):
        balls = Arb(digits=digits << doubling)
        ball = element(balls)
        if ball.rel_accuracy_bits() >= math.ceil(digits * math.log2(10)):
            break
    return Confirmation(engine="arb", value=Arb(digits=digits).text(ball), nearest=balls.nearest(ball), radius=radius_above(ball))
