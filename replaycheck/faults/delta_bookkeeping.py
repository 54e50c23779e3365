"""Wrong sessions of a delta rule: one overridden method each. What each stands for is told in `delta_faults.DELTA_FAULTS`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .delta_forms import PrefixRing, ScoresSession
from .delta_host import DeltaReplaySession, DeltaStep
from .rounding import through

__all__ = [
    "BF16RingDelta", "BF16RingGate", "BF16RingKey", "DecayedTwice", "FirstRowsBeta", "LosesNewest", "LosesToken", "PredictsFromCheckpoint",
    "PrefixKept", "RatioForm", "RawKeyInRing", "ReadsBefore", "ResidualInRing", "StaleRowRead", "TokenTwice", "Transposed", "WritesValues",
]


# -- ring ------------------------------------------------------------------------------------------------------------------------
class RawKeyInRing(DeltaReplaySession):
    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        raw = token.k[0].float()[self.layers[layer].group_of_head()]
        super().append(layer, slot, position, token, replace(made, k=raw))


class BF16RingKey(DeltaReplaySession):
    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        super().append(layer, slot, position, token, replace(made, k=through(made.k, torch.bfloat16)))


class BF16RingDelta(DeltaReplaySession):
    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        super().append(layer, slot, position, token, replace(made, delta=through(made.delta, torch.bfloat16)))


class BF16RingGate(DeltaReplaySession):
    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        super().append(layer, slot, position, token, replace(made, g=through(made.g, torch.bfloat16)))


class ResidualInRing(DeltaReplaySession):
    """The ring holds v - S k, and beta is left out when it is replayed."""

    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        beta = self.evaluation.beta(self.layers[layer], token.b[0])[:, None]
        super().append(layer, slot, position, token, replace(made, delta=made.delta / beta))


class StaleRowRead(DeltaReplaySession):
    def history(self, position: int) -> Tensor:
        return self.live(position)


class LosesNewest(DeltaReplaySession):
    def history(self, position: int) -> Tensor:
        return self.live(position - 2)


class PredictsFromCheckpoint(DeltaReplaySession):
    """The delta sees the checkpoint, without the ring."""

    def taken(self, layer: int, state: Tensor, token: Any) -> DeltaStep:
        made, e, own = super().taken(layer, state, token), self.evaluation, self.layers[layer]
        older = e.decayed(self.load(layer, self._slot), made.g)
        delta = e.delta(older, older, e.beta(own, token.b[0]), made.k, token.v[0].to(e.number))
        return replace(made, delta=delta, state=e.insert(made.decayed, delta, made.k))

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        self._slot = slot
        return super().token(layer, slot, step, token)


class PrefixKept(PrefixRing):
    """Sums of log decays go on beyond a flush."""

    def prefix(self, layer: int, slot: int, position: int) -> Tensor:
        kept: Tensor = self.rings[layer][2][slot, position - 1]
        return kept.clone() if position or int(self.folded[slot]) else torch.zeros_like(kept)


class RatioForm(ScoresSession):
    """Decays as e^G of now times e^-G of then."""

    def decays(self, gates: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        e, grown, prefixes = self.evaluation, torch.zeros_like(own), torch.empty_like(gates)
        for row in range(gates.shape[0]):
            grown = grown + gates[row]
            prefixes[row] = grown
        now = grown + own
        return e.decay(now), e.decay(now) * e.decay(-prefixes)


# -- flush and readout -----------------------------------------------------------------------------------------------------------
class LosesToken(DeltaReplaySession):
    def flush(self, layer: int, slot: int, token: Any, made: DeltaStep) -> Tensor:
        return super().flush(layer, slot, token, replace(made, state=made.decayed))


class TokenTwice(DeltaReplaySession):
    def flush(self, layer: int, slot: int, token: Any, made: DeltaStep) -> Tensor:
        e, own = self.evaluation, self.layers[layer]
        again = e.delta(made.state, made.state, e.beta(own, token.b[0]), made.k, token.v[0].to(e.number))
        return super().flush(layer, slot, token, replace(made, state=e.insert(made.state, again, made.k)))


class DecayedTwice(DeltaReplaySession):
    """The flush decays what it stores once more."""

    def flush(self, layer: int, slot: int, token: Any, made: DeltaStep) -> Tensor:
        y = super().flush(layer, slot, token, made)
        self.store(layer, slot, self.evaluation.decayed(made.state, made.g))
        return y


class ReadsBefore(DeltaReplaySession):
    def answered(self, layer: int, made: DeltaStep, state: Tensor, token: Any) -> Tensor:
        return super().answered(layer, made, made.decayed, token)


class Transposed(DeltaReplaySession):
    """Keys along the rows and values along the columns of what is stored, where both have one dim."""

    def load(self, layer: int, slot: int) -> Tensor:
        return super().load(layer, slot).transpose(-1, -2).contiguous()

    def store(self, layer: int, slot: int, state: Tensor) -> None:
        super().store(layer, slot, state.transpose(-1, -2))


# -- rows ------------------------------------------------------------------------------------------------------------------------
class FirstRowsBeta(DeltaReplaySession):
    """b of the batch's first row for every row."""

    def run(self, layer: int, tokens: Any, out: Tensor) -> None:
        super().run(layer, replace(tokens, b=tokens.b[:1].expand_as(tokens.b)), out)


class WritesValues(DeltaReplaySession):
    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        y = super().token(layer, slot, step, token)
        token.v.mul_(2)
        return y
