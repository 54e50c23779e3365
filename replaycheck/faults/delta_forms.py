"""Other right ways to decode a delta rule from a checkpoint and a ring: scores instead of a state, prefixes of log decays, exact inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from replaycheck_reference.layer import DeltaLayer

from .delta_host import DeltaEvaluation, DeltaReplaySession, DeltaStep
from .rounding import tf32x3, through

__all__ = ["BF16Keys", "FusedRule", "InputRing", "NarrowRing", "PairRing", "PrefixRing", "ReciprocalNorm", "ScoresSession", "Tf32x3Rule"]


# -- arithmetic ------------------------------------------------------------------------------------------------------------------
class ReciprocalNorm(DeltaEvaluation):
    """Keys and queries multiplied by the reciprocal of their norms."""

    def normed(self, layer: DeltaLayer, x: Tensor) -> Tensor:
        value = x.to(self.number)
        return value if layer.variant.norm == "off" else value * (1 / self.norm(layer, self.total(value * value)[:, None]))


class BF16Keys(DeltaEvaluation):
    """Normalised keys and queries in bf16 wherever they are used."""

    def normed(self, layer: DeltaLayer, x: Tensor) -> Tensor:
        return through(super().normed(layer, x), torch.bfloat16)


class Tf32x3Rule(DeltaEvaluation):
    """Every product of the state as three tf32 products."""

    def predict_product(self, state: Tensor, k: Tensor) -> Tensor:
        return tf32x3(state, k.expand_as(state))

    def readout_product(self, state: Tensor, C: Tensor) -> Tensor:
        return tf32x3(state, C.expand_as(state))

    def token_product(self, left: Tensor, right: Tensor) -> Tensor:
        return tf32x3(left, right)


class FusedRule(DeltaEvaluation):
    """Multiply and add in one rounding where a delta is folded in and where a sum takes a product."""

    def insert(self, state: Tensor, delta: Tensor, k: Tensor) -> Tensor:
        return (state.double() + delta[:, :, None].double() * k[:, None, :].double()).float()

    def _fused(self, state: Tensor, x: Tensor) -> Tensor:
        result = torch.zeros_like(state[..., 0])
        for column in range(state.shape[-1]):
            result = (result.double() + state[..., column].double() * x[:, None, column].double()).float()
        return result

    def predicted(self, state: Tensor, k: Tensor) -> Tensor:
        return self._fused(state, k)

    def read(self, state: Tensor, C: Tensor) -> Tensor:
        return self._fused(state, C)


# -- what is replayed ------------------------------------------------------------------------------------------------------------
class ScoresSession(DeltaReplaySession):
    """Ordinary steps form no state: the checkpoint and every delta are read by key and by query, each with its decay since."""

    def since(self, gates: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Log decays of the checkpoint [H, C] and of each row [R, H, C] through the current token, summed from the newest."""
        passed, rows = own, torch.empty_like(gates)
        for row in range(gates.shape[0] - 1, -1, -1):
            rows[row] = passed
            passed = passed + gates[row]
        return passed, rows

    def decays(self, gates: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Decays of the checkpoint and of each row through the current token."""
        start, rows = self.since(gates, own)
        return self.evaluation.decay(start), self.evaluation.decay(rows)

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        position = self.position(slot, step)
        return super().token(layer, slot, step, token) if self.flushes(position) else self.scored(layer, slot, position, token)

    def scored(self, layer: int, slot: int, position: int, token: Any) -> Tensor:
        """An ordinary step."""
        e, own = self.evaluation, self.layers[layer]
        k, q, g = e.key(own, token.k[0]), e.query(own, token.q[0]), e.log_decay(own, token.g[0])
        start = self.load(layer, slot)
        keys, deltas, gates = self.ring(layer, slot, self.history(position))
        begun, weights = self.decays(gates, g)

        def read(x: Tensor, product: Any) -> Tensor:
            scores = e.total(e.score_product(keys * weights, x[None]))[..., None]
            rows = e.value_product(scores, deltas)
            return e.total(product(start, (begun * x)[:, None, :])) + e.total(rows.movedim(0, -1))

        delta = e.beta(own, token.b[0])[:, None] * (token.v[0].to(e.number) - read(k, e.predict_product))
        made = DeltaStep(k=k, g=g, decayed=start, delta=delta, state=start)
        self.append(layer, slot, position, token, made)
        return read(q, e.readout_product) + e.value_product(e.total(e.score_product(k, q))[:, None], delta)


class PrefixRing(ScoresSession):
    """The ring holds log decays summed since the checkpoint; decays are those of differences."""

    def prefix(self, layer: int, slot: int, position: int) -> Tensor:
        """The sum of log decays of the ring up to row `position`, of its last row before it; zero at a checkpoint."""
        kept: Tensor = self.rings[layer][2][slot, max(position - 1, 0)]
        return kept.clone() if position else torch.zeros_like(kept)

    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        super().append(layer, slot, position, token, replace(made, g=self.prefix(layer, slot, position) + made.g))

    def ring(self, layer: int, slot: int, live: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, deltas, prefixes = super().ring(layer, slot, live)
        return keys, deltas, prefixes.masked_fill(~live.reshape(-1, 1, 1), 0.0)

    def since(self, gates: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        now = gates.amin(0) + own
        return now, torch.where(gates.abs() > 0, now - gates, now)

    def rebuilt(self, layer: int, slot: int, live: Tensor) -> Tensor:
        """Every row with its own weight."""
        e = self.evaluation
        keys, deltas, prefixes = self.ring(layer, slot, live)
        now = prefixes.amin(0)
        state = self.load(layer, slot) * e.decay(now)[:, None, :]
        for k, delta, prefix in zip(keys, deltas, prefixes, strict=True):
            state = e.insert(state, delta, e.decay(now - prefix) * k)
        return state


class NarrowRing(DeltaReplaySession):
    """Keys and deltas in the ring are bf16."""

    def rows_of(self, own: DeltaLayer) -> tuple[tuple[str, tuple[int, ...], torch.dtype], ...]:
        key, delta, gate = super().rows_of(own)
        return ((*key[:2], torch.bfloat16), (*delta[:2], torch.bfloat16), gate)


class PairRing(DeltaReplaySession):
    """Keys and deltas in the ring are pairs of bf16: the value, and what rounding it leaves."""

    def rows_of(self, own: DeltaLayer) -> tuple[tuple[str, tuple[int, ...], torch.dtype], ...]:
        key, delta, gate = super().rows_of(own)
        return (("ring_k", (2, *key[1]), torch.bfloat16), ("ring_delta", (2, *delta[1]), torch.bfloat16), gate)

    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        for ring, value in zip(self.rings[layer][:2], (made.k, made.delta), strict=True):
            high = value.to(torch.bfloat16)
            ring[slot, position] = torch.stack([high, (value - high).to(torch.bfloat16)])
        self.rings[layer][2][slot, position] = made.g

    def ring(self, layer: int, slot: int, live: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, deltas, gates = super().ring(layer, slot, live)
        return keys.sum(1), deltas.sum(1), gates


class InputRing(DeltaReplaySession):
    """The ring holds what came, to the bit: key, value, gate and beta; deltas are worked out again at every step."""

    def rows_of(self, own: DeltaLayer) -> tuple[tuple[str, tuple[int, ...], torch.dtype], ...]:
        wide = torch.float32
        return (("ring_k", (own.groups, own.state_dim), wide), ("ring_v", (own.heads, own.head_dim), wide),
                ("ring_g", own.gate_shape, wide), ("ring_b", (own.heads,), wide))

    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        for ring, row in zip(self.rings[layer], (token.k[0], token.v[0], token.g[0], token.b[0]), strict=True):
            ring[slot, position] = row

    def rebuilt(self, layer: int, slot: int, live: Tensor) -> Tensor:
        e, own, state = self.evaluation, self.layers[layer], self.load(layer, slot)
        for row in live.nonzero()[:, 0].tolist():
            raw_k, v, raw_g, raw_b = (ring[slot, row] for ring in self.rings[layer])
            k = e.key(own, raw_k)
            decayed = e.decayed(state, e.log_decay(own, raw_g))
            state = e.insert(decayed, e.delta(state, decayed, e.beta(own, raw_b), k, v), k)
        return state
