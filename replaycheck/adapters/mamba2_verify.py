"""Our Mamba-2 kernels for speculative decode as the checker sees them: `verify`, on a ring that turns, and `saving`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD, Session, Stored
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.mamba2.configs import StepConfig, VerifyConfig, walk_length
from replaycheck_kernels.pool import MAX_CAPACITY, Geometry, Pool, allocate
from replaycheck_kernels.rows import MAX_WINDOW
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

from .decode import allocator
from .mamba2 import REPLAY_CLAIMS, STEP_CLAIMS

__all__ = ["VerifyKernel", "saving", "verify"]

_SCORES = REPLAY_CLAIMS.policy.paths["output"]
#: Drafts are appended behind what is folded, so that a fold takes the tokens before the row's own and the row reads what was folded.
VERIFY_CLAIMS = replace(
    REPLAY_CLAIMS, name="replaycheck mamba2 verify", kind="verify", capacities=(1, MAX_CAPACITY - MAX_WINDOW), windows=(1, MAX_WINDOW),
    policy=replace(REPLAY_CLAIMS.policy, paths={"output": _SCORES, "flush": replace(_SCORES, folds="before")}),
)

_STEP = STEP_CLAIMS.policy.paths["step"]
#: Every row publishes the state of its last accepted token. It is rounded after every token on the way, which costs nothing in fp32 alone.
SAVING_CLAIMS = replace(
    STEP_CLAIMS, name="replaycheck mamba2 verify, states saved", kind="verify", states=("fp32",), capacities=(1, MAX_CAPACITY),
    windows=(1, MAX_WINDOW), guarantees=(*STEP_CLAIMS.guarantees, "nan_in_draft", "spec_exact"),
    policy=replace(STEP_CLAIMS.policy, paths={"output": _STEP, "flush": _STEP}),
)


class _VerifySession:
    """A stack of layers over one memory. Rows, starts and counts are tensors on the device, as a serving engine has them."""

    def __init__(self, layers: Sequence[Mamba2Layer], pools: Sequence[Pool], window: int) -> None:
        self.layers, self.pools, self.window = layers, pools, window
        self.committed = [0] * pools[0].slots
        self.rows: list[tuple[int, int]] = []
        self.slots = self.starts = torch.empty(0, dtype=torch.int32)

    def _tensor(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.pools[0].state.device)

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        for index, pool in enumerate(self.pools):
            if states is None:
                pool.state[slot].zero_()
            else:
                pool.state[slot].copy_(states[index])
        self.committed[slot] = 0
        self.reset(slot)

    def reset(self, slot: int) -> None:
        """Forget what the slot holds beside its state."""

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        starts = [0]
        for slot, length in rows:
            if length > self.window:
                raise ValueError(f"a row holds at most {self.window} tokens, got {length} for slot {slot}")
            starts.append(starts[-1] + length)
        self.rows, self.slots, self.starts = list(rows), self._tensor([slot for slot, _ in rows]), self._tensor(starts)

    def given(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> dict[str, Any]:
        """The arguments of a launch."""
        parameters = self.layers[layer]
        return {
            "x": tokens.x, "dt": tokens.dt, "B": tokens.B, "C": tokens.C, "z": tokens.z, "A": parameters.decay,
            "dt_bias": parameters.dt_bias, "D": parameters.D, "softplus": parameters.variant.softplus,
            "dt_limits": parameters.variant.dt_limits, "out": out,
        }

    def commit(self, counts: Sequence[int | None]) -> None:
        kept = [length if count is None else count for (_, length), count in zip(self.rows, counts, strict=True)]
        self.keep(self._tensor(kept))
        for (slot, _), count in zip(self.rows, kept, strict=True):
            if slot != PAD:
                self.committed[slot] += count

    def keep(self, counts: Tensor) -> None:
        """Keep the first counts[row] tokens of each row, on the device."""
        raise NotImplementedError

    def release(self, slot: int) -> None:
        """Nothing to do: admit starts a slot afresh."""


class RingSession(_VerifySession):
    """Layers share the cursors of the first."""

    def __init__(self, layers: Sequence[Mamba2Layer], pools: Sequence[Pool], window: int) -> None:
        super().__init__(layers, pools, window)
        ring = pools[0].ring
        assert ring is not None and ring.origin is not None
        self.cursor, self.origin, self.capacity = ring.cursor, ring.origin, ring.capacity
        self.config = None if self.cursor.is_cuda else VerifyConfig(rows=walk_length(pools[0].geometry))

    def reset(self, slot: int) -> None:
        cursors.reset(self.cursor, self.origin, self._tensor([slot]))

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        mamba2.verify(self.pools[layer], self.slots, self.starts, **self.given(layer, tokens, out), config=self.config)

    def keep(self, counts: Tensor) -> None:
        cursors.commit(self.cursor, self.origin, self.slots, self.starts, counts, capacity=self.capacity, window=self.window)

    def copy(self, src: int, dst: int) -> None:
        for pool in self.pools:
            assert pool.ring is not None
            for buffer in (pool.state, *pool.ring.held):
                buffer[dst].copy_(buffer[src])
        for cursor in (self.cursor, self.origin):
            cursor[dst] = cursor[src]
        self.committed[dst] = self.committed[src]

    def materialise(self, src: int, prefix: int, dst: int) -> None:
        """dst begins a life of its own with the state that src had `prefix` tokens after its checkpoint."""
        sources, targets, prefixes = (self._tensor([value]) for value in (src, dst, prefix))
        for pool, layer in zip(self.pools, self.layers, strict=True):
            mamba2.materialise(pool, sources, prefixes, targets, A=layer.decay)
        self.committed[dst] = 0
        self.reset(dst)

    def stored(self, slot: int, layer: int) -> Stored:
        return Stored(bits=self.pools[layer].state[slot], folded=self.committed[slot] - int(self.cursor[slot]))


class SavingSession(_VerifySession):
    """Saved states lie in the slot's ring: they are of the last row alone."""

    def __init__(self, layers: Sequence[Mamba2Layer], pools: Sequence[Pool], window: int, saved: Sequence[Tensor]) -> None:
        super().__init__(layers, pools, window)
        self.saved = saved
        head_dim = pools[0].geometry.head_dim
        self.config = None if saved[0].is_cuda else StepConfig(tile=max(16, head_dim & -head_dim))

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        given = self.given(layer, tokens, out)
        mamba2.verify_saving(self.pools[layer], self.saved[layer], self.slots, self.starts, **given, config=self.config)

    def keep(self, counts: Tensor) -> None:
        for pool, saved in zip(self.pools, self.saved, strict=True):
            mamba2.restore(pool, saved, self.slots, self.starts, counts)

    def copy(self, src: int, dst: int) -> None:
        for pool in self.pools:
            pool.state[dst].copy_(pool.state[src])
        self.committed[dst] = self.committed[src]

    def stored(self, slot: int, layer: int) -> Stored:
        return Stored(bits=self.pools[layer].state[slot], folded=self.committed[slot])


def _ring(layers: Sequence[Mamba2Layer], memory: Memory, shape: dict[str, Any], capacity: int, window: int) -> Session:
    pools: list[Pool] = []
    for index, layer in enumerate(layers):
        first = pools[0].ring if pools else None
        pools.append(allocate(
            _geometry(layer), **shape, capacity=capacity, window=window, cursor=None if first is None else first.cursor,
            origin=None if first is None else first.origin, allocator=allocator(memory, index),
        ))
    return RingSession(layers, pools, window)


def _saving(layers: Sequence[Mamba2Layer], memory: Memory, shape: dict[str, Any], capacity: int, window: int) -> Session:
    pools = [allocate(_geometry(layer), **shape, allocator=allocator(memory, index)) for index, layer in enumerate(layers)]
    saved = [
        memory.alloc(f"layer{index}.saved", (pool.slots, window, *pool.state.shape[1:]), pool.state.dtype, role="ring", slot_axis=0,
                     row_axis=1)
        for index, pool in enumerate(pools)
    ]
    return SavingSession(layers, pools, window, saved)


def _geometry(layer: Mamba2Layer) -> Geometry:
    return Geometry(heads=layer.heads, head_dim=layer.head_dim, state_dim=layer.state_dim, groups=layer.groups)


class VerifyKernel:
    """A verify kernel: `claims`, and `open` for the sessions that `made` makes."""

    def __init__(self, claims: Claims, made: Callable[[Sequence[Mamba2Layer], Memory, dict[str, Any], int, int], Session]) -> None:
        self.claims = claims
        self._made = made

    def open(
        self, layers: Sequence[Mamba2Layer], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int, window: int = 1
    ) -> Session:
        for name, value, (low, high) in (("capacity", capacity, self.claims.capacities), ("window", window, self.claims.windows)):
            if not low <= value <= high:
                raise ValueError(f"{name} must be from {low} to {high}, got {value}")
        for layer in layers:
            if layer.variant.decay_parameter != "A":
                raise ValueError(f"the decay parameter must be handed over as A, got {layer.variant.decay_parameter}")
        shape = {"slots": slots, "state": TORCH_DTYPE[formats.state], "activation": TORCH_DTYPE[formats.activation]}
        return self._made([layer.to(memory.device) for layer in layers], memory, shape, capacity, window)


verify = VerifyKernel(VERIFY_CLAIMS, _ring)
saving = VerifyKernel(SAVING_CLAIMS, _saving)
