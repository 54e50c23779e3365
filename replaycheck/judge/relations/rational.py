"""What the check "exact" asks of a recurrence: forms in which nothing rounds, and the rational answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from replaycheck.contract.claims import Claims

__all__ = ["Rational"]


@dataclass(frozen=True, kw_only=True)
class Rational:
    """One recurrence in exact arithmetic.

    owed: whether a kernel with these claims can be given gates that it promises to use exactly. promised: the variant with what these
    claims do not promise left out. form: the variant without what rounds for any input. answer: (layer, start or None, tokens) -> outputs
    [tokens, heads, head_dim] and states [heads, head_dim, state_dim] at positions 0..tokens, float64; it raises ValueError naming the
    number where inputs are not exact ones.
    """

    owed: Callable[[Claims], bool]
    promised: Callable[[Any, Claims], Any]
    form: Callable[[Any], Any]
    answer: Callable[[Any, Tensor | None, Any], tuple[Tensor, list[Tensor]]]
