"""Readable host kernels of the delta rules: step and replay sessions on a CPU, fp32, in the shape of production kernels.

Bookkeeping is that of the Mamba-2 host kernels; `DeltaEvaluation` holds the arithmetic, one small method a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD
from replaycheck_reference.layer import DeltaLayer
from replaycheck_reference.policy import Path, Policy

from .evaluation import Evaluation
from .host import HostKernel, HostSession

__all__ = ["DeltaEvaluation", "DeltaReplaySession", "DeltaStepSession", "gdn_replay", "gdn_step", "kda_replay", "kda_step"]


class DeltaEvaluation(Evaluation):
    """fp32 arithmetic of one token of the gated delta rule: H heads, V head_dim, K state_dim; a channel axis of K, or of 1."""

    def sigmoid(self, x: Tensor) -> Tensor:
        return 1 / (1 + self.exponential(-x))

    def log_decay(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """[H, K] or [H, 1]."""
        form, value = layer.variant, raw.to(self.number)
        if layer.dt_bias is not None:
            value = value + layer.dt_bias.to(self.number)
        value = value if form.channels else value[:, None]
        if form.gate == "given":
            return value
        rate = 1.0 if layer.A_log is None else self.exponential(layer.A_log.to(self.number))[:, None]
        return -rate * self.softplus(value) if form.gate == "classic" else form.lower_bound * self.sigmoid(rate * value)

    def beta(self, layer: DeltaLayer, raw: Tensor) -> Tensor:
        """[H]."""
        value, form = raw.to(self.number), layer.variant.beta
        return value if form == "given" else self.sigmoid(value) * (2 if form == "doubled" else 1)

    def normed(self, layer: DeltaLayer, x: Tensor) -> Tensor:
        """Keys or queries [G, K] divided by their norms."""
        form, value = layer.variant, x.to(self.number)
        if form.norm == "off":
            return value
        squares = self.total(value * value)[:, None]
        root = torch.sqrt(squares)
        norm = {"inside": torch.sqrt(squares + form.eps), "outside": root + form.eps, "max": root.clamp(min=form.eps)}[form.norm]
        return value / norm

    def key(self, layer: DeltaLayer, k: Tensor) -> Tensor:
        return self.normed(layer, k)[self.key_head(layer)]

    def query(self, layer: DeltaLayer, q: Tensor) -> Tensor:
        """Scaled after the norm."""
        return (self.normed(layer, q) * layer.scale)[self.key_head(layer)]

    def key_head(self, layer: DeltaLayer) -> Tensor:
        """Which key head each value head uses."""
        return layer.group_of_head()

    def decayed(self, state: Tensor, log_decay: Tensor) -> Tensor:
        return state * self.decay(log_decay)[:, None, :]

    def delta(self, state: Tensor, beta: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """beta (v - S k), [H, V], of the state after its decay."""
        return beta[:, None] * (v - self.read(state, k))

    def insert(self, state: Tensor, delta: Tensor, k: Tensor) -> Tensor:
        return state + self.token_product(delta[:, :, None], k[:, None, :])


class DeltaStepSession(HostSession):
    """The plain step: decay, predict, insert, read; the state is stored at every token."""

    evaluation: DeltaEvaluation

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        e, own = self.evaluation, self.layers[layer]
        k, q, v = e.key(own, token.k[0]), e.query(own, token.q[0]), token.v[0].to(e.number)
        state = e.decayed(self.load(layer, slot), e.log_decay(own, token.g[0]))
        state = e.insert(state, e.delta(state, e.beta(own, token.b[0]), k, v), k)
        self.store(layer, slot, state)
        return e.read(state, q)


class DeltaReplaySession(HostSession):
    """Replay decode: an ordinary step rebuilds the state from checkpoint and ring, appends and reads; a full ring is folded.

    The ring holds what the token did, in fp32: its normalised key, its delta and its log decay.
    """

    evaluation: DeltaEvaluation

    def __init__(self, layers: Sequence[Any], *, formats: Formats, capacity: int, slots: int, memory: Memory,
                 evaluation: Evaluation) -> None:
        super().__init__(layers, formats=formats, capacity=capacity, slots=slots, memory=memory, evaluation=evaluation)
        self.rings = [[memory.alloc(f"{name}.{i}", (slots, capacity, *shape), torch.float32, role="ring", slot_axis=0, row_axis=1)
                       for name, shape in (("ring_k", (own.heads, own.state_dim)), ("ring_delta", (own.heads, own.head_dim)),
                                           ("ring_g", (own.heads, own.state_dim if own.variant.channels else 1)))]
                      for i, own in enumerate(layers)]
        self.filled = memory.alloc("filled", (slots,), torch.int64, role="cursor", slot_axis=0)

    def reset_cursor(self, slot: int) -> None:
        super().reset_cursor(slot)
        self.filled[slot] = 0

    def rebuilt(self, layer: int, slot: int, rows: int) -> Tensor:
        """The state after the first `rows` of the ring: the checkpoint with one row after the other."""
        e, state = self.evaluation, self.load(layer, slot)
        keys, deltas, gates = (ring[slot] for ring in self.rings[layer])
        for row in range(rows):
            state = e.insert(e.decayed(state, gates[row]), deltas[row], keys[row])
        return state

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        e, own = self.evaluation, self.layers[layer]
        position = (int(self.filled[slot]) + step) % self.capacity
        k, q, v, g = e.key(own, token.k[0]), e.query(own, token.q[0]), token.v[0].to(e.number), e.log_decay(own, token.g[0])
        state = e.decayed(self.rebuilt(layer, slot, position), g)
        delta = e.delta(state, e.beta(own, token.b[0]), k, v)
        for ring, row in zip(self.rings[layer], (k, delta, g), strict=True):
            ring[slot, position] = row
        state = e.insert(state, delta, k)
        if position == self.capacity - 1:
            self.store(layer, slot, state)
        return e.read(state, q)

    def advance(self, slot: int, length: int) -> None:
        if slot == PAD:
            return
        filled = int(self.filled[slot]) + length
        self.folded[slot] += filled - filled % self.capacity
        self.filled[slot] = filled % self.capacity

    def copy(self, src: int, dst: int) -> None:
        super().copy(src, dst)
        for ring in (ring for rings in self.rings for ring in rings):
            ring[dst] = ring[src]
        self.filled[dst] = self.filled[src]


_FEATURES = ("bias", "groups", "lower_bound", "no_A_log", "doubled", "norm_outside", "norm_max", "norm_off")
_GUARANTEES = ("batch_invariant", "nan_poison")


def _kernel(recurrence: str, kind: str) -> HostKernel:
    paths = {"step": {"step": Path()}, "replay": {"output": Path(), "flush": Path()}}[kind]
    claims = Claims(
        name=f"host {recurrence} {kind}", recurrence=recurrence, kind=kind, policy=Policy(paths=paths),
        states=("fp32", "bf16", "fp16"), activations=("bf16", "fp16", "fp32"), outputs=(),
        capacities=(1, 64) if kind == "replay" else (1, 1),
        features=_FEATURES, guarantees=_GUARANTEES,
    )
    return HostKernel(claims=claims, evaluation=DeltaEvaluation, session=DeltaReplaySession if kind == "replay" else DeltaStepSession)


gdn_step = _kernel("gdn", "step")
gdn_replay = _kernel("gdn", "replay")
kda_step = _kernel("kda", "step")
kda_replay = _kernel("kda", "replay")
