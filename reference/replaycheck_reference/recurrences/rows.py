"""What scalar specifications have in common: rows of a head's state, which never meet, so that a row is a run of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from torch import Tensor

from ..arithmetic.interface import Arithmetic, Number
from ..layer.shape import ShapedLayer

__all__ = ["HeadRun", "dot", "numbers", "of_rows", "start_row"]


@dataclass(frozen=True, kw_only=True)
class HeadRun(Generic[Number]):
    """One head over a run of tokens. outputs: [tokens][head_dim]; end: [head_dim][state_dim], the state after the last token."""

    outputs: list[list[Number]]
    end: list[list[Number]]


def of_rows(runs: Sequence[tuple[list[Number], list[Number]]]) -> HeadRun[Number]:
    """A head from its rows: outputs [tokens] and end state [state_dim] of each."""
    return HeadRun(outputs=[list(outputs) for outputs in zip(*(outputs for outputs, _ in runs), strict=True)], end=[end for _, end in runs])


def start_row(arithmetic: Arithmetic[Number], layer: ShapedLayer, start: Tensor | None, *, head: int, row: int) -> list[Number]:
    """Row p of S_0: [state_dim]. start: [heads, head_dim, state_dim], any float dtype, None is zero."""
    return [arithmetic.number(0.0)] * layer.state_dim if start is None else numbers(arithmetic, start[head, row])


def numbers(arithmetic: Arithmetic[Number], values: Tensor) -> list[Number]:
    """Every value exactly."""
    return [arithmetic.number(v) for v in values.double().tolist()]


def dot(arithmetic: Arithmetic[Number], left: Sequence[Number], right: Sequence[Number]) -> Number:
    """The sum of the products."""
    total = arithmetic.number(0.0)
    for a, b in zip(left, right, strict=True):
        total = total + a * b
    return total
