"""Wrong evaluations of a delta rule: one overridden method each. What each stands for is told in `delta_faults.DELTA_FAULTS`."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from replaycheck_reference.layer import DeltaLayer

from .delta_host import DeltaEvaluation
from .rounding import tf32, through

__all__ = [
    "BF16Beta", "BF16Decay", "BF16Key", "BF16Prediction", "BetaOfFirstHead", "BetaOnValueAlone", "BetaUndoubled", "BiasForgotten",
    "ChannelsOfFirst", "ClassicBounded", "DecayAfterPrediction", "DecaysValues", "EpsOutside", "GateWithoutA", "HeadModulo", "MeanNorm",
    "NoEps", "QueryRaw", "RateOfBound", "ScaleBeforeNorm", "TF32Insert", "TF32Prediction",
]


# -- gates and beta ----------------------------------------------------------------------------------------------------------------
class BF16Beta(DeltaEvaluation):
    def beta(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        return through(super().beta(layer, raw), torch.bfloat16)


class BF16Decay(DeltaEvaluation):
    def decay(self, exponent: Tensor) -> Tensor:
        return through(super().decay(exponent), torch.bfloat16)


class BetaUndoubled(DeltaEvaluation):
    def beta(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        return super().beta(replace(layer, variant=replace(layer.variant, beta="sigmoid")), raw)


class BetaOfFirstHead(DeltaEvaluation):
    def beta(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        return super().beta(layer, raw[:1].expand_as(raw))


class BetaOnValueAlone(DeltaEvaluation):
    def delta(self, before: Tensor, decayed: Tensor, beta: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return beta[:, None] * v - self.predicted(decayed, k)


class BiasForgotten(DeltaEvaluation):
    def biased(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        return raw.to(self.number)


class GateWithoutA(DeltaEvaluation):
    def gate_rate(self, layer: DeltaLayer) -> Tensor | float:
        return 1.0


class ClassicBounded(DeltaEvaluation):
    def bounded(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        return self.classic(layer, raw).clamp(min=layer.variant.lower_bound)


class RateOfBound(DeltaEvaluation):
    """exp(A_log) multiplies the sigmoid, not what it is taken of."""

    def bounded(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        return layer.variant.lower_bound * self.sigmoid(raw) * self.gate_rate(layer)


class ChannelsOfFirst(DeltaEvaluation):
    """Every key channel decays as the first does."""

    def log_decay(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        made = super().log_decay(layer, raw)
        return made[:, :1].expand_as(made)


class DecaysValues(DeltaEvaluation):
    """Decays of the key channels laid along the rows of values."""

    def decayed(self, state: Tensor, log_decay: Tensor) -> Tensor:
        return state * self.decay(log_decay)[:, :, None]


# -- keys and queries ------------------------------------------------------------------------------------------------------------
class ScaleBeforeNorm(DeltaEvaluation):
    def query(self, layer: DeltaLayer, q: Tensor) -> Tensor:
        return self.normed(layer, q.to(self.number) * layer.scale)[self.key_head(layer)]


class QueryRaw(DeltaEvaluation):
    def query(self, layer: DeltaLayer, q: Tensor) -> Tensor:
        return (q.to(self.number) * layer.scale)[self.key_head(layer)]


class EpsOutside(DeltaEvaluation):
    def norm(self, layer: DeltaLayer, squares: Tensor) -> Tensor:
        return torch.sqrt(squares) + layer.variant.eps


class NoEps(DeltaEvaluation):
    def norm(self, layer: DeltaLayer, squares: Tensor) -> Tensor:
        return torch.sqrt(squares)


class MeanNorm(DeltaEvaluation):
    """The norm by the mean of squares, as a norm of activations has it."""

    def norm(self, layer: DeltaLayer, squares: Tensor) -> Tensor:
        return super().norm(layer, squares / layer.state_dim)


class BF16Key(DeltaEvaluation):
    def normed(self, layer: DeltaLayer, x: Tensor) -> Tensor:
        return through(super().normed(layer, x), torch.bfloat16)


class HeadModulo(DeltaEvaluation):
    def key_head(self, layer: DeltaLayer) -> Tensor:
        return torch.arange(layer.heads) % layer.groups


# -- the rule --------------------------------------------------------------------------------------------------------------------
class DecayAfterPrediction(DeltaEvaluation):
    def delta(self, before: Tensor, decayed: Tensor, beta: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().delta(before, before, beta, k, v)


class BF16Prediction(DeltaEvaluation):
    def predicted(self, state: Tensor, k: Tensor) -> Tensor:
        return through(super().predicted(state, k), torch.bfloat16)


class TF32Prediction(DeltaEvaluation):
    def predict_product(self, state: Tensor, k: Tensor) -> Tensor:
        return tf32(state) * tf32(k.expand_as(state))


class TF32Insert(DeltaEvaluation):
    def token_product(self, left: Tensor, right: Tensor) -> Tensor:
        return tf32(left) * tf32(right)
