"""Readable host kernels of the delta rules: step and replay sessions on a CPU, fp32, in the shape of production kernels.

Bookkeeping is that of the Mamba-2 host kernels; `DeltaEvaluation` holds the arithmetic, one small method a decision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims
from replaycheck.contract.memory import Memory
from replaycheck_reference.layer import DeltaLayer
from replaycheck_reference.policy import Path, Policy

from .evaluation import Evaluation
from .host import HostKernel, HostSession, RingSession

__all__ = [
    "DeltaEvaluation", "DeltaHostSession", "DeltaReplaySession", "DeltaStep", "DeltaStepSession", "gdn_replay", "gdn_step", "kda_replay",
    "kda_step",
]


class DeltaEvaluation(Evaluation):
    """fp32 arithmetic of one token of the gated delta rule: H heads, V head_dim, K state_dim; a channel axis of K, or of 1."""

    # -- gates ----------------------------------------------------------------------------------------------------------------
    def sigmoid(self, x: Tensor) -> Tensor:
        return 1 / (1 + self.exponential(-x))

    def gate_rate(self, layer: DeltaLayer) -> Tensor | float:
        """exp(A_log), [H, 1]; 1 where the layer has none."""
        return 1.0 if layer.A_log is None else self.exponential(layer.A_log.to(self.number))[:, None]

    def biased(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """The raw gate with its bias."""
        value = raw.to(self.number)
        return value if layer.dt_bias is None else value + layer.dt_bias.to(self.number)

    def log_decay(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """[H, K] or [H, 1]."""
        form, value = layer.variant, self.biased(layer, raw)
        value = value if form.channels else value[:, None]
        if form.gate == "given":
            return value
        return self.classic(layer, value) if form.gate == "classic" else self.bounded(layer, value)

    def classic(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """The log decay of the classic gate."""
        return -self.gate_rate(layer) * self.softplus(raw)

    def bounded(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """The log decay of the gate with a lower bound."""
        return layer.variant.lower_bound * self.sigmoid(self.gate_rate(layer) * raw)

    def beta(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """[H]."""
        value, form = raw.to(self.number), layer.variant.beta
        return value if form == "given" else self.sigmoid(value) * (2 if form == "doubled" else 1)

    # -- keys and queries -------------------------------------------------------------------------------------------------------
    def norm(self, layer: DeltaLayer, squares: Tensor) -> Tensor:
        """What keys and queries are divided by, of their sums of squares."""
        form, root = layer.variant, torch.sqrt(squares)
        if form.norm == "inside":
            return torch.sqrt(squares + form.eps)
        return root + form.eps if form.norm == "outside" else root.clamp(min=form.eps)

    def normed(self, layer: DeltaLayer, x: Tensor) -> Tensor:
        """Keys or queries [G, K] divided by their norms."""
        value = x.to(self.number)
        return value if layer.variant.norm == "off" else value / self.norm(layer, self.total(value * value)[:, None])

    def key(self, layer: DeltaLayer, k: Tensor) -> Tensor:
        return self.normed(layer, k)[self.key_head(layer)]

    def query(self, layer: DeltaLayer, q: Tensor) -> Tensor:
        """Scaled after the norm."""
        return (self.normed(layer, q) * layer.scale)[self.key_head(layer)]

    def key_head(self, layer: DeltaLayer) -> Tensor:
        """Which key head each value head uses."""
        return layer.group_of_head()

    # -- the delta rule ---------------------------------------------------------------------------------------------------------
    def predict_product(self, state: Tensor, k: Tensor) -> Tensor:
        return state * k

    def decayed(self, state: Tensor, log_decay: Tensor) -> Tensor:
        return state * self.decay(log_decay)[:, None, :]

    def predicted(self, state: Tensor, k: Tensor) -> Tensor:
        """What a state has at a key, [H, V]."""
        return self.total(self.predict_product(state, k[:, None, :]))

    def delta(self, before: Tensor, decayed: Tensor, beta: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """beta (v - S k), [H, V], of the state after its decay."""
        return beta[:, None] * (v - self.predicted(decayed, k))

    def insert(self, state: Tensor, delta: Tensor, k: Tensor) -> Tensor:
        return state + self.token_product(delta[:, :, None], k[:, None, :])


@dataclass(frozen=True, kw_only=True)
class DeltaStep:
    """What one token makes of a state: its key and log decay, the decayed state, its delta, and the state after it."""

    k: Tensor
    g: Tensor
    decayed: Tensor
    delta: Tensor
    state: Tensor


class DeltaHostSession(HostSession):
    """What both kinds share: one token of the rule on a state."""

    evaluation: DeltaEvaluation

    def taken(self, layer: int, state: Tensor, token: Any) -> DeltaStep:
        """Decay, predict, insert."""
        e, own = self.evaluation, self.layers[layer]
        k, g = e.key(own, token.k[0]), e.log_decay(own, token.g[0])
        decayed = e.decayed(state, g)
        delta = e.delta(state, decayed, e.beta(own, token.b[0]), k, token.v[0].to(e.number))
        return DeltaStep(k=k, g=g, decayed=decayed, delta=delta, state=e.insert(decayed, delta, k))

    def answered(self, layer: int, made: DeltaStep, state: Tensor, token: Any) -> Tensor:
        """What the query reads, [H, V], of the state after its token, as it is read."""
        return self.evaluation.read(state, self.evaluation.query(self.layers[layer], token.q[0]))


class DeltaStepSession(DeltaHostSession):
    """The plain step: the state is stored at every token."""

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        made = self.taken(layer, self.load(layer, slot), token)
        self.store(layer, slot, made.state)
        return self.answered(layer, made, made.state, token)


class DeltaReplaySession(DeltaHostSession, RingSession):
    """Replay decode: an ordinary step rebuilds the state from checkpoint and ring, appends and reads; a full ring is folded.

    The ring holds what the token did, in fp32: its normalised key, its delta and its log decay. Rows that are not live are masked by
    selection: a delta of zero on a decay of 1 changes no bit.
    """

    def make_rings(self, memory: Memory) -> None:
        self.rings = [[self.buffer(memory, f"{name}.{i}", shape, dtype) for name, shape, dtype in self.rows_of(own)]
                      for i, own in enumerate(self.layers)]

    def rows_of(self, own: DeltaLayer) -> tuple[tuple[str, tuple[int, ...], torch.dtype], ...]:
        """Name, shape and format of what a ring row holds: key, delta and log decay."""
        return (("ring_k", (own.heads, own.state_dim), torch.float32), ("ring_delta", (own.heads, own.head_dim), torch.float32),
                ("ring_g", (own.heads, own.state_dim if own.variant.channels else 1), torch.float32))

    def history(self, position: int) -> Tensor:
        """Which ring rows are replayed at a step whose token takes row `position`, bool [R]: those before it."""
        return self.live(position - 1)

    def ring(self, layer: int, slot: int, live: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys [R, H, K], deltas [R, H, V] and log decays [R, H, K or 1] of the live rows, widened, zero elsewhere."""
        keys, deltas, gates = (self.mask(ring[slot].to(self.evaluation.number), live) for ring in self.rings[layer])
        return keys, deltas, gates

    def rebuilt(self, layer: int, slot: int, live: Tensor) -> Tensor:
        """The state after the live rows of the ring: the checkpoint with one row after the other."""
        e, state = self.evaluation, self.load(layer, slot)
        for k, delta, g in zip(*self.ring(layer, slot, live), strict=True):
            state = e.insert(e.decayed(state, g), delta, k)
        return state

    def append(self, layer: int, slot: int, position: int, token: Any, made: DeltaStep) -> None:
        """What the token did into ring row `position`."""
        for ring, row in zip(self.rings[layer], (made.k, made.delta, made.g), strict=True):
            ring[slot, position] = row

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        position = self.position(slot, step)
        made = self.taken(layer, self.rebuilt(layer, slot, self.history(position)), token)
        self.append(layer, slot, position, token, made)
        return self.flush(layer, slot, token, made) if self.flushes(position) else self.answered(layer, made, made.state, token)

    def flush(self, layer: int, slot: int, token: Any, made: DeltaStep) -> Tensor:
        """The output [H, V] of a step that folds the ring and its own token; the new checkpoint is stored."""
        self.store(layer, slot, made.state)
        return self.answered(layer, made, self.unrounded(made.state), token)


_FEATURES = ("bias", "groups", "lower_bound", "no_A_log", "doubled", "norm_outside", "norm_max", "norm_off")
_GUARANTEES = ("batch_invariant", "nan_poison")


def _kernel(recurrence: str, kind: str) -> HostKernel:
    paths = {"step": {"step": Path(order="tree")}, "replay": {"output": Path(), "flush": Path()}}[kind]
    claims = Claims(
        name=f"host {recurrence} {kind}", recurrence=recurrence, kind=kind, policy=Policy(paths=paths, ftz=False),
        states=("fp32", "bf16", "fp16"), activations=("bf16", "fp16", "fp32"), outputs=("fp32", "fp16", "bf16"),
        capacities=(1, 64) if kind == "replay" else (1, 1),
        features=_FEATURES, guarantees=_GUARANTEES,
    )
    return HostKernel(claims=claims, evaluation=DeltaEvaluation, session=DeltaReplaySession if kind == "replay" else DeltaStepSession)


gdn_step = _kernel("gdn", "step")
gdn_replay = _kernel("gdn", "replay")
kda_step = _kernel("kda", "step")
kda_replay = _kernel("kda", "replay")
