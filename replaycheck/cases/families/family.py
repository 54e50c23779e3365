"""What cases, plans, traces and recordings ask of a recurrence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Layer, Tokens
from replaycheck_reference.variant import Variant

from ..files import record
from ..layers import Geometry
from ..stream import Floats, Stream

__all__ = ["Family", "Shapes", "scale_of", "tensor"]

#: Shape of each tensor by name; a tensor of tokens has the tokens before that.
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Family:
    """One recurrence.

    description: its mathematics in one line. variant, layer, tokens: its types. plain: fields that make the variant its own.
    needs: (variant, geometry) -> which features of the recurrence a case needs, by name.
    forms: (features, entry) -> the form with everything plain that is claimed, then one for each further claimed feature, then the bare.
    parameters, received: (geometry, variant) -> shapes of a layer's parameters and of a token's tensors, those that are there.
    processed: names of token tensors that may come in fp32 beside narrower ones. numbers: fields of a layer that are plain numbers.
    recorded: what a recording calls a dim, parameter or token tensor that it has another name for.
    laws: by regime. check: (regime, geometry, variant, tokens) raises ValueError where the regime cannot be drawn.
    draw_layer: (law, stream, geometry, variant). draw_start: (law, stream, geometry), float64. draw_tokens: (law, stream, geometry, tokens,
    variant), float64 by name.
    """

    description: str
    variant: type[Any]
    layer: type[Any]
    tokens: type[Any]
    plain: Mapping[str, Any]
    needs: Callable[[Any, Geometry], dict[str, bool]]
    forms: Callable[[Collection[str], str], list[Any]]
    parameters: Callable[[Geometry, Any], Shapes]
    received: Callable[[Geometry, Any], Shapes]
    processed: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    recorded: Mapping[str, str] = field(default_factory=dict)
    laws: Mapping[str, Any]
    check: Callable[[str, Geometry, Any, int], None]
    draw_layer: Callable[[Any, Stream, Geometry, Any], Layer]
    draw_start: Callable[[Any, Stream, Geometry], Floats]
    draw_tokens: Callable[[Any, Stream, Geometry, int, Any], dict[str, Floats]]

    def plain_numbers(self, name: str, state_dim: int) -> float:
        """A number of a layer that a recording leaves out: the scale, state_dim^-1/2 correctly rounded to fp32."""
        if name != "scale":
            raise ValueError(f"a recording must hold {name!r}")
        return scale_of(state_dim)

    def variant_of(self, where: str, data: Any) -> Variant:
        """The variant of JSON values. Raises ValueError naming field and value."""
        made: Variant = record(where, self.variant, data, later=getattr(self.variant, "LATER", ()))
        for name, value in self.plain.items():
            if getattr(made, name) != value:
                raise ValueError(f"field '{where}.{name}' must be {value!r} for this recurrence, got {getattr(made, name)!r}")
        return made

    def tokens_of(self, drawn: Mapping[str, Floats], form: str) -> Tokens:
        """Tokens of drawn values, rounded to a format."""
        made: Tokens = self.tokens(**{name: tensor(value, form) for name, value in drawn.items()})
        return made


def scale_of(state_dim: int) -> float:
    """state_dim^-1/2, correctly rounded to fp32."""
    return float(np.float32(1.0 / np.sqrt(np.float64(state_dim))))


def tensor(values: Floats, form: str = "fp32") -> Tensor:
    """Values rounded to fp32 and from there to the format, nearest even."""
    return torch.from_numpy(values).to(torch.float32).to(TORCH_DTYPE[form])
