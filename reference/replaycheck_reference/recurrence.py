"""Every recurrence by name, and what a judge asks of one: the terms of a window, their budget, and what heads of a group share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from .gauge import delta as delta_gauge
from .gauge import mamba2 as mamba2_gauge
from .layer import Layer
from .recurrences import delta, mamba2
from .recurrences.batched import delta as delta_terms
from .recurrences.batched import delta_stories
from .recurrences.batched import mamba2 as mamba2_terms
from .recurrences.confirm import RunRow

__all__ = ["RECURRENCES", "Bound", "Recurrence", "Shares", "Terms", "recurrence_of"]


class Terms(Protocol):
    """A window taken apart, float64; every tensor may carry leading batch dims.

    A window has one field for the decay of its start state, then for each token one of every kind: what a relative error of one of that
    kind would add to a result.
    """

    @property
    def start(self) -> Tensor:
        """[..., heads, head_dim, state_dim]."""

    def outputs(self) -> Tensor:
        """Exact outputs to float64: [..., tokens, heads, head_dim]."""

    def end(self) -> Tensor:
        """The state after the last token: [..., heads, head_dim, state_dim]."""

    def state_fields(self) -> Tensor:
        """Of the end state: [..., heads, fields, head_dim * state_dim]."""

    def unit_fields(self) -> Tensor:
        """Of the end state, by what shares one decay, as fits want them: [..., units, fields, elements]."""

    def unit_kinds(self) -> tuple[str, ...]:
        """What each unit field of a token is an error of, in order."""

    def units(self, state: Tensor) -> Tensor:
        """A state [..., heads, head_dim, state_dim] by what shares one decay, units of a head together: [..., units, elements]."""

    def output_fields(self) -> Tensor:
        """Of every output: [..., tokens, heads, fields, head_dim]; those of later tokens are zero."""

    def field_kinds(self) -> tuple[str, ...]:
        """What each field of a token is an error of, in order; an error of -1 in the first is a token that never came."""

    def beside(self) -> tuple[str, Tensor] | None:
        """A term of every output that the state has no part in, [..., tokens, heads, head_dim], by name; None where it is zero."""


class Shares(Protocol):
    """The end state's budget by kind, for fitted coefficients."""

    @property
    def allowed(self) -> Tensor:
        """Error allowed to each unit field's coefficient, biased sums included: [..., units, fields]; inf where none can be told."""

    @property
    def scattered(self) -> Tensor:
        """Absolute size of roundings that nothing shares: [..., heads, head_dim, state_dim]."""

    @property
    def told(self) -> bool:
        """Whether any field is held to a gate: where none is, nothing is fitted."""

    def together(self, rows: Tensor, some: slice) -> Tensor:
        """The most that roundings shared by a whole row or column put into each coefficient of `some` windows: [windows, units, fields].

        rows: the linear map from residual to coefficients, [windows, units, fields, elements].
        """

    def variance(self, rows: Tensor, some: slice) -> Tensor:
        """Variance that roundings shared by a whole row or column, each by itself, put into each coefficient; shapes as above."""


class Bound(Protocol):
    """Absolute errors allowed before the last rounding."""

    @property
    def outputs(self) -> Tensor:
        """[..., tokens, heads, head_dim]."""

    @property
    def output_decay(self) -> Tensor:
        """Error allowed to the first field's coefficient in each output: [..., tokens, heads]."""

    @property
    def end(self) -> Tensor:
        """[..., heads, head_dim, state_dim]."""

    @property
    def shares(self) -> Shares:
        """The same of the end state, by kind."""


def _no_stories(layer: Any, start: Tensor, tokens: Any) -> Iterable[tuple[str, Any]]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """One recurrence.

    decompose: (layer, start, tokens) -> Terms. bound: (layer, terms, policy, paths, table, activation=format) -> Bound.
    run_row: the scalar specification, of one row of one head; `recurrences.confirm` computes single elements by it, to many digits.
    stories: (layer, start, tokens) -> what a window would be were one line of the recurrence misread, each in words.
    shared: names of the tensors of its tokens, [tokens, groups, ...], that all heads of a group share.
    """

    decompose: Callable[..., Any]
    bound: Callable[..., Any]
    run_row: RunRow
    shared: tuple[str, ...]
    stories: Callable[..., Iterable[tuple[str, Any]]] = _no_stories


RECURRENCES = {
    "mamba2": Recurrence(decompose=mamba2_terms.decompose, bound=mamba2_gauge.bound, run_row=mamba2.run_row, shared=("B", "C")),
    "gdn": Recurrence(decompose=delta_terms.decompose, bound=delta_gauge.bound, run_row=delta.run_row, shared=("q", "k"),
                      stories=delta_stories.stories),
    "kda": Recurrence(decompose=delta_terms.decompose, bound=delta_gauge.bound, run_row=delta.run_row, shared=("q", "k"),
                      stories=delta_stories.stories),
}


def recurrence_of(layer: Layer) -> Recurrence:
    """The recurrence of a layer. Raises ValueError naming one that is unknown."""
    if layer.recurrence not in RECURRENCES:
        raise ValueError(f"recurrence must be one of {', '.join(RECURRENCES)}, got {layer.recurrence!r}")
    return RECURRENCES[layer.recurrence]
