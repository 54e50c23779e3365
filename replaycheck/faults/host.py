"""Readable host kernels: the Mamba-2 step and replay sessions on a CPU, in the shape of production kernels.

They are the base that faults and variants change by one method. Bookkeeping (slots, ring, cursors, pads, copies) lives here,
arithmetic in `Evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD, Stored
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

from .evaluation import Evaluation

__all__ = ["HostKernel", "HostSession", "ReplaySession", "RingSession", "StepSession"]


class HostSession:
    """What both kinds share: a state pool a layer, the count of folded tokens, and rows packed one after the other."""

    def __init__(self, layers: Sequence[Any], *, formats: Formats, capacity: int, slots: int, memory: Memory,
                 evaluation: Evaluation) -> None:
        self.layers, self.formats, self.capacity, self.slots, self.evaluation = layers, formats, capacity, slots, evaluation
        dtype = TORCH_DTYPE[formats.state]
        self.states = [memory.alloc(f"state.{i}", (slots, *layer.state_shape), dtype, role="state", slot_axis=0)
                       for i, layer in enumerate(layers)]
        self.folded = memory.alloc("folded", (slots,), torch.int64, role="cursor", slot_axis=0)
        self.rows: list[tuple[int, int]] = []

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        for i, pool in enumerate(self.states):
            pool[slot] = 0 if states is None else states[i]
        self.reset_cursor(slot)

    def reset_cursor(self, slot: int) -> None:
        self.folded[slot] = 0

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        self.rows = list(rows)

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        first = 0
        for slot, length in self.rows:
            packed = slice(first, first + length)
            first += length
            if slot == PAD:
                self.pad(layer, tokens[packed], out[packed])
                continue
            for step, place in enumerate(range(packed.start, packed.stop)):
                y = self.token(layer, slot, step, tokens[slice(place, place + 1)])
                out[place] = self.evaluation.store_output(y, out.dtype)

    def pad(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        """A row that names no slot: nothing is read, nothing is written."""

    def token(self, layer: int, slot: int, step: int, token: Mamba2Tokens) -> Tensor:
        """The output [H, P] of the row's token number `step`, before it is rounded; whatever it folds is stored."""
        raise NotImplementedError

    def commit(self, counts: Sequence[int | None]) -> None:
        for (slot, length), count in zip(self.rows, counts, strict=True):
            if count is not None and count != length and slot != PAD:
                raise ValueError(f"a host session keeps whole rows, got commit count {count} of {length}")
            self.advance(slot, length)

    def advance(self, slot: int, length: int) -> None:
        """Move the cursors of a committed row."""
        if slot != PAD:
            self.folded[slot] += length

    def copy(self, src: int, dst: int) -> None:
        for pool in self.states:
            pool[dst] = pool[src]
        self.folded[dst] = self.folded[src]

    def release(self, slot: int) -> None:
        self.reset_cursor(slot)

    def stored(self, slot: int, layer: int) -> Stored:
        return Stored(bits=self.states[layer][slot].clone(), folded=int(self.folded[slot]))

    def load(self, layer: int, slot: int) -> Tensor:
        """The stored state [H, P, N], widened."""
        return self.states[layer][slot].to(self.evaluation.number)

    def store(self, layer: int, slot: int, state: Tensor) -> None:
        self.states[layer][slot] = self.evaluation.store_state(state, self.states[layer].dtype)

    def finish(self, layer: Mamba2Layer, y: Tensor, x: Tensor, z: Tensor | None) -> Tensor:
        """Skip and gate."""
        return self.evaluation.gate(self.evaluation.skip(layer, y, x), z)


class StepSession(HostSession):
    """The plain step: every token is folded at once."""

    def token(self, layer: int, slot: int, step: int, token: Mamba2Tokens) -> Tensor:
        e, geometry = self.evaluation, self.layers[layer]
        group = e.group_of_head(geometry)
        wide = token.map(lambda t: t[0].to(e.number))
        dt = e.dt(geometry, token.dt[0])
        state = e.step(self.load(layer, slot), e.token_decay(e.decay_rate(geometry), dt), dt, wide.x, wide.B[group])
        self.store(layer, slot, state)
        return self.finish(geometry, e.read(state, wide.C[group]), wide.x, wide.z)


class RingSession(HostSession):
    """A checkpoint and a ring a slot, whatever the rows hold: where a token goes, which rows count, when they are folded."""

    def __init__(self, layers: Sequence[Any], *, formats: Formats, capacity: int, slots: int, memory: Memory,
                 evaluation: Evaluation) -> None:
        super().__init__(layers, formats=formats, capacity=capacity, slots=slots, memory=memory, evaluation=evaluation)
        self.buffers: list[Tensor] = []
        self.make_rings(memory)
        self.filled = memory.alloc("filled", (slots,), torch.int64, role="cursor", slot_axis=0)

    def make_rings(self, memory: Memory) -> None:
        """Make every buffer of the ring, by `buffer`."""
        raise NotImplementedError

    def buffer(self, memory: Memory, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """One tensor of the ring: [slots, capacity, *shape]."""
        made = memory.alloc(name, (self.slots, self.capacity, *shape), dtype, role="ring", slot_axis=0, row_axis=1)
        self.buffers.append(made)
        return made

    def reset_cursor(self, slot: int) -> None:
        super().reset_cursor(slot)
        self.filled[slot] = 0

    def position(self, slot: int, step: int) -> int:
        """The ring row of the row's token number `step`."""
        return (int(self.filled[slot]) + step) % self.capacity

    def flushes(self, position: int) -> bool:
        """Whether the step whose token takes ring row `position` folds."""
        return position == self.capacity - 1

    def live(self, position: int) -> Tensor:
        """Which ring rows count at a step whose token takes row `position`, bool [R]."""
        return torch.arange(self.capacity) <= position

    def mask(self, rows: Tensor, live: Tensor) -> Tensor:
        """The rows, zero where they are not live, by selection: whatever lies in a dead row is never used."""
        return torch.where(live.reshape(-1, *[1] * (rows.dim() - 1)), rows, torch.zeros((), dtype=rows.dtype))

    def unrounded(self, state: Tensor) -> Tensor:
        """What a flush step reads: the state before it was rounded for storage."""
        return state

    def advance(self, slot: int, length: int) -> None:
        if slot == PAD:
            return
        filled = int(self.filled[slot]) + length
        self.folded[slot] += filled - filled % self.capacity
        self.filled[slot] = filled % self.capacity

    def copy(self, src: int, dst: int) -> None:
        super().copy(src, dst)
        self.copy_ring(src, dst)

    def copy_ring(self, src: int, dst: int) -> None:
        for buffer in self.buffers:
            buffer[dst] = buffer[src]
        self.filled[dst] = self.filled[src]


class ReplaySession(RingSession):
    """Replay decode: ordinary steps append to the ring and only read; the step that fills the ring folds it into the state.

    The ring holds x and B in the activation dtype and the processed dt in fp32. Rows that are not live are masked by selection.
    """

    def make_rings(self, memory: Memory) -> None:
        dtype = TORCH_DTYPE[self.formats.activation]
        self.ring_x = [self.buffer(memory, f"ring_x.{i}", (own.heads, own.head_dim), dtype) for i, own in enumerate(self.layers)]
        self.ring_B = [self.buffer(memory, f"ring_B.{i}", (own.groups, own.state_dim), dtype) for i, own in enumerate(self.layers)]
        self.ring_dt = [self.buffer(memory, f"ring_dt.{i}", (own.heads,), torch.float32) for i, own in enumerate(self.layers)]

    def append(self, layer: int, slot: int, position: int, token: Mamba2Tokens, dt: Tensor) -> None:
        self.ring_x[layer][slot, position] = token.x[0]
        self.ring_B[layer][slot, position] = token.B[0]
        self.ring_dt[layer][slot, position] = dt.to(torch.float32)

    def folds(self, live: Tensor) -> Tensor:
        """Which of the live rows a flush folds."""
        return live

    def ring(self, layer: int, slot: int, live: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [R, H, P], B [R, H, N] and dt [R, H] of the live rows, widened, zero elsewhere."""
        e = self.evaluation
        x, B, dt = (self.mask(t[layer][slot].to(e.number), live) for t in (self.ring_x, self.ring_B, self.ring_dt))
        return x, B[:, e.group_of_head(self.layers[layer])], dt

    def token(self, layer: int, slot: int, step: int, token: Mamba2Tokens) -> Tensor:
        e, geometry = self.evaluation, self.layers[layer]
        position = self.position(slot, step)
        self.append(layer, slot, position, token, e.dt(geometry, token.dt[0]))
        C = token.C[0].to(e.number)[e.group_of_head(geometry)]
        answer = self.flush if self.flushes(position) else self.ordinary
        y = answer(layer, slot, self.live(position), C)
        return self.close(geometry, y, token, folds=self.flushes(position))

    def ordinary(self, layer: int, slot: int, live: Tensor, C: Tensor) -> Tensor:
        """The output [H, P] of a step that leaves the checkpoint alone."""
        e = self.evaluation
        x, B, dt = self.ring(layer, slot, live)
        return e.output_only(self.load(layer, slot), *e.weights(e.decay_rate(self.layers[layer]), dt), x, B, C)

    def flush(self, layer: int, slot: int, live: Tensor, C: Tensor) -> Tensor:
        """The output [H, P] of a step that folds the ring; the new checkpoint is stored."""
        e = self.evaluation
        x, B, dt = self.ring(layer, slot, self.folds(live))
        state = e.fold(self.load(layer, slot), *e.weights(e.decay_rate(self.layers[layer]), dt), x, B)
        self.store(layer, slot, state)
        return e.read(self.unrounded(state), C)

    def close(self, geometry: Mamba2Layer, y: Tensor, token: Mamba2Tokens, *, folds: bool) -> Tensor:
        """Skip and gate of either kind of step."""
        z = None if token.z is None else token.z[0].to(self.evaluation.number)
        return self.finish(geometry, y, token.x[0].to(self.evaluation.number), z)


@dataclass(frozen=True, kw_only=True)
class HostKernel:
    """A host kernel: claims, an evaluation and a session. Implements contract.session.Kernel.

    Raises ValueError naming the thing and the value where a build is not supported.
    """

    claims: Claims
    evaluation: type[Evaluation] = Evaluation
    session: type[HostSession] = ReplaySession

    def open(self, layers: Sequence[Any], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int,
             **speculative: int) -> HostSession:
        """speculative: the window, where the kernel is a verify kernel."""
        for name, value, allowed in (("state", formats.state, self.claims.states),
                                     ("activation", formats.activation, self.claims.activations),
                                     ("output", formats.output, self.claims.outputs_of(formats.activation))):
            if value not in allowed:
                raise ValueError(f"{self.claims.name} is not built for {name} format {value!r}; it has {', '.join(allowed)}")
        low, high = self.claims.capacities
        if not low <= capacity <= high:
            raise ValueError(f"{self.claims.name} is not built for capacity {capacity}; it has {low} to {high}")
        return self.session(layers, formats=formats, capacity=capacity, slots=slots, memory=memory, evaluation=self.evaluation(),
                            **speculative)
