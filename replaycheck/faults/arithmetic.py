"""Wrong evaluations: one overridden method each. What each stands for is told in `faults.FAULTS`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from replaycheck_reference.layer import Mamba2Layer

from .evaluation import Evaluation
from .rounding import flush_subnormals, tf32, through, toward_zero

__all__ = [
    "BF16Output", "BF16Scores", "BF16State", "BF16Sums", "BF16TokenOperands", "BiasTwice", "BlendedSoftplus", "CoherentDecay",
    "DoubleRoundedOutput", "EarlyBranch", "ExclusivePrefix", "FlushedState", "FoldsTokenTwice",
    "GateBeforeSkip", "GroupModulo", "LowDecayOfOne",
    "RandomOrderSums", "RatioDecays", "ShortCheckpointDecay", "SkipOfFirstRow", "SoftplusTwice", "SwappedHeads", "TF32Readout", "TF32Token",
    "TruncatedOutput", "TruncatedState", "UnlimitedDt",
]


# -- sums and products -----------------------------------------------------------------------------------------------------------
class BF16Sums(Evaluation):
    def total(self, terms: Tensor) -> Tensor:
        return super().total(terms.to(torch.bfloat16)).to(terms.dtype)


class RandomOrderSums(Evaluation):
    """Every sum in an order of its own, as atomic additions would give."""

    _order = np.random.default_rng(0)

    def total(self, terms: Tensor) -> Tensor:
        return super().total(terms[..., torch.from_numpy(self._order.permutation(terms.shape[-1]))])


class TF32Readout(Evaluation):
    def readout_product(self, state: Tensor, C: Tensor) -> Tensor:
        return tf32(state) * tf32(C)


class TF32Token(Evaluation):
    def token_product(self, left: Tensor, right: Tensor) -> Tensor:
        return tf32(left) * tf32(right)


class BF16TokenOperands(Evaluation):
    def token_product(self, left: Tensor, right: Tensor) -> Tensor:
        return through(left, torch.bfloat16) * right


class BF16Scores(Evaluation):
    def scores(self, B: Tensor, C: Tensor) -> Tensor:
        return through(super().scores(B, C), torch.bfloat16)


# -- gates -----------------------------------------------------------------------------------------------------------------------
class BiasTwice(Evaluation):
    def dt(self, layer: Mamba2Layer, raw: Tensor) -> Tensor:
        return super().dt(layer, raw if layer.dt_bias is None else raw.to(self.number) + layer.dt_bias)


class SoftplusTwice(Evaluation):
    def weights(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        return super().weights(rate, torch.where(dt > 0, self.softplus(dt), dt))


class BlendedSoftplus(Evaluation):
    def softplus(self, raw: Tensor) -> Tensor:
        small = (raw <= 20).to(raw.dtype)
        return small * torch.log1p(self.exponential(raw)) + (1 - small) * raw


class EarlyBranch(Evaluation):
    def softplus(self, raw: Tensor) -> Tensor:
        return torch.where(raw > 2, raw, super().softplus(raw))


class CoherentDecay(Evaluation):
    def decay(self, exponent: Tensor) -> Tensor:
        return super().decay(exponent) * torch.where(exponent < 0, 1 + 2.0**-19, 1.0)


class LowDecayOfOne(Evaluation):
    def decay(self, exponent: Tensor) -> Tensor:
        exact = super().decay(exponent)
        return torch.where(exact == 1, exact - 2.0**-24, exact)


class UnlimitedDt(Evaluation):
    def limits(self, layer: Mamba2Layer, dt: Tensor) -> Tensor:
        return dt


class ShortCheckpointDecay(Evaluation):
    def decays(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        start, rows = self.since(dt)
        return self.decay(rate * (start - dt[0])), self.decay(rate * rows)


class ExclusivePrefix(Evaluation):
    def decays(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        start, rows = self.since(dt)
        return self.decay(rate * start), self.decay(rate * (rows + dt))


class FoldsTokenTwice(Evaluation):
    def fold(self, state: Tensor, start: Tensor, weights: Tensor, x: Tensor, B: Tensor) -> Tensor:
        doubled = torch.cat([weights[:-1], 2 * weights[-1:]])
        return super().fold(state, start, doubled, x, B)


class RatioDecays(Evaluation):
    def decays(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        prefix = torch.empty_like(dt)
        grown = torch.zeros_like(dt[0])
        for row in range(dt.shape[0]):
            grown = grown + rate * dt[row]
            prefix[row] = grown
        return self.decay(grown), self.decay(grown) * self.decay(-prefix)


# -- heads and formula -----------------------------------------------------------------------------------------------------------
class GroupModulo(Evaluation):
    def group_of_head(self, layer: Mamba2Layer) -> Tensor:
        return torch.arange(layer.heads) % layer.groups


class SwappedHeads(Evaluation):
    def gate(self, y: Tensor, z: Tensor | None) -> Tensor:
        answer = super().gate(y, z).clone()
        answer[:2] = answer[:2].flip(0)
        return answer


class SkipOfFirstRow(Evaluation):
    def skip(self, layer: Mamba2Layer, y: Tensor, x: Tensor) -> Tensor:
        skip = layer.skip_of_rows()
        return y if skip is None else y + skip[:, :1].to(self.number) * x


class GateBeforeSkip(Evaluation):
    """The gate multiplies the readout alone; D x is added after it."""

    def skip(self, layer: Mamba2Layer, y: Tensor, x: Tensor) -> Tensor:
        self._skipped = super().skip(layer, torch.zeros_like(y), x)
        return y

    def gate(self, y: Tensor, z: Tensor | None) -> Tensor:
        return super().gate(y, z) + self._skipped


# -- storage ---------------------------------------------------------------------------------------------------------------------
class BF16State(Evaluation):
    def store_state(self, state: Tensor, dtype: torch.dtype) -> Tensor:
        return super().store_state(through(state, torch.bfloat16), dtype)


class TruncatedState(Evaluation):
    def store_state(self, state: Tensor, dtype: torch.dtype) -> Tensor:
        return toward_zero(state, dtype)


class FlushedState(Evaluation):
    def store_state(self, state: Tensor, dtype: torch.dtype) -> Tensor:
        return super().store_state(flush_subnormals(state), dtype)


class TruncatedOutput(Evaluation):
    def store_output(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return toward_zero(y, dtype)


class DoubleRoundedOutput(Evaluation):
    def store_output(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return super().store_output(through(y, torch.float16), dtype)


class BF16Output(Evaluation):
    def store_output(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return super().store_output(through(y, torch.bfloat16), dtype)
