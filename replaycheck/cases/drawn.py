"""The inputs of a case that draws them: parameters, start states and tokens by the laws of its regime, from its seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from replaycheck_reference.layer import Layer, Tokens

from .families import family
from .families.family import tensor
from .regimes import RECORDED

if TYPE_CHECKING:
    from .case import Case

__all__ = ["START", "check", "layer", "start", "tokens"]

#: What a request that does not start from zero starts from.
START = "random"


def check(case: Case) -> None:
    """Raises ValueError naming field and value where the regime cannot be drawn for this case."""
    if case.regime == RECORDED.name:
        raise ValueError(f"regime {case.regime!r} needs a recording: nothing is drawn in it")
    own, known = family(case.recurrence), case.law
    if known.name not in own.laws:
        raise ValueError(f"regime {case.regime!r} has no meaning for recurrence {case.recurrence!r}")
    own.check(case.regime, case.geometry, case.variant, max(case.lengths.values(), default=0))


def layer(case: Case, i: int) -> Layer:
    """Layer i."""
    own = family(case.recurrence)
    return own.draw_layer(own.laws[case.regime], case.stream("layer", i), case.geometry, case.variant)


def start(case: Case, root: int, i: int) -> Tensor:
    """The random state of request `root` in layer i, in the state format."""
    own = family(case.recurrence)
    return tensor(own.draw_start(own.laws[case.regime], case.stream("start", i, root), case.geometry), case.formats.state)


def tokens(case: Case, root: int, count: int, i: int) -> Tokens:
    """The first `count` tokens of request `root` in layer i, in the activation format."""
    own = family(case.recurrence)
    drawn = own.draw_tokens(own.laws[case.regime], case.stream("tokens", i, root), case.geometry, count, case.variant)
    return own.tokens_of(drawn, case.formats.activation)
