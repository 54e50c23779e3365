"""A Mamba-2 layer and its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ..variant import Mamba2Variant
from .shape import ShapedLayer
from .tokens import TokenRun

__all__ = ["Mamba2Layer", "Mamba2Tokens"]


@dataclass(frozen=True, kw_only=True)
class Mamba2Layer(ShapedLayer):
    """Geometry and exact parameters of one Mamba-2 layer.

    B and C are shared by heads // groups consecutive heads. decay: fp32 [heads]: A or A_log, as `variant.decay_parameter` says.
    dt_bias, D: fp32 [heads], None where the variant has none; D is fp32 [heads, head_dim] where `variant.skip_rows`.

    Raises ValueError naming the field where geometry or parameters disagree.
    """

    decay: Tensor
    dt_bias: Tensor | None = None
    D: Tensor | None = None
    variant: Mamba2Variant = field(default_factory=Mamba2Variant)

    def __post_init__(self) -> None:
        super().__post_init__()
        each, variant = (self.heads,), self.variant
        skip = (self.heads, self.head_dim) if variant.skip_rows else each
        self._check_parameters({"decay": each, "dt_bias": each if variant.bias else None, "D": skip if variant.skip else None}, variant)

    @property
    def recurrence(self) -> str:
        return "mamba2"

    def skip_of_rows(self) -> Tensor | None:
        """D of every head and row: fp32 [heads, head_dim], or [heads, 1] where a head has one; None where the variant has none."""
        return self.D if self.D is None or self.variant.skip_rows else self.D[:, None]


@dataclass(frozen=True, kw_only=True)
class Mamba2Tokens(TokenRun):
    """What a Mamba-2 layer receives for a run of tokens (raw gates), in activation dtypes, as exact bits.

    x: [tokens, heads, head_dim]; dt: [tokens, heads], before bias and softplus; B, C: [tokens, groups, state_dim];
    z: [tokens, heads, head_dim] where the variant is gated, else None. In a forward, tokens are packed in row order.
    """

    x: Tensor
    dt: Tensor
    B: Tensor
    C: Tensor
    z: Tensor | None = None
