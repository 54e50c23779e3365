"""A layer of the gated delta rule (Gated DeltaNet, Kimi Delta Attention) and its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from ..variant import DeltaVariant
from ..variant.numbers import is_fp32
from .shape import ShapedLayer
from .tokens import TokenRun

__all__ = ["DeltaLayer", "DeltaTokens"]


@dataclass(frozen=True, kw_only=True)
class DeltaLayer(ShapedLayer):
    """Geometry and exact parameters of one layer of the gated delta rule.

    heads: value heads; groups: key heads, each shared by heads // groups consecutive value heads. head_dim: of values; state_dim: of keys.
    scale: fp32 number that queries are multiplied by after the norm. A_log: fp32 [heads]; dt_bias: fp32 [heads], or [heads, state_dim]
    where `variant.channels`; None where the variant has none.

    Raises ValueError naming the field where geometry or parameters disagree.
    """

    scale: float
    A_log: Tensor | None = None
    dt_bias: Tensor | None = None
    variant: DeltaVariant = field(default_factory=DeltaVariant)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_fp32(self.scale):
            raise ValueError(f"layer.scale must be an fp32 number, got {self.scale!r}")
        self._check_parameters({"A_log": (self.heads,) if self.variant.A_log else None,
                                "dt_bias": self.gate_shape if self.variant.bias else None}, self.variant)

    @property
    def recurrence(self) -> str:
        return self.variant.recurrence

    @property
    def gate_shape(self) -> tuple[int, ...]:
        """Of the log decays of one token: [heads], or [heads, state_dim] where every key channel has its own."""
        return (self.heads, self.state_dim) if self.variant.channels else (self.heads,)


@dataclass(frozen=True, kw_only=True)
class DeltaTokens(TokenRun):
    """What a layer of the gated delta rule receives for a run of tokens, in activation dtypes, as exact bits.

    q, k: [tokens, groups, state_dim], before norm and scale; v: [tokens, heads, head_dim]; g: [tokens, *gate_shape], before bias and gate,
    or the log decay itself where `variant.gate` is "given"; b: [tokens, heads], before the sigmoid, or beta itself where `variant.beta` is
    "given". Given gates may come in fp32 beside narrower q, k and v.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    b: Tensor
