"""Readable host kernels for speculative decode: a ring that turns, in the shape of production kernels. Bookkeeping alone is here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.contract.claims import Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

from .base import REPLAY_CLAIMS
from .evaluation import Evaluation
from .host import HostKernel, HostSession

__all__ = ["VERIFY", "VerifySession"]


class VerifySession(HostSession):
    """A ring of `capacity + window` rows a slot that turns: rows are appended behind the committed ones, and a commit moves cursors.

    used: committed rows since the checkpoint. origin: where the first of them lies. A row whose whole window would not fit into
    `capacity` folds the committed rows before it reads, and starts at a new origin when it is committed. Decisions are one method each.
    """

    def __init__(self, layers: Sequence[Mamba2Layer], *, formats: Formats, capacity: int, slots: int, memory: Memory,
                 evaluation: Evaluation, window: int) -> None:
        super().__init__(layers, formats=formats, capacity=capacity, slots=slots, memory=memory, evaluation=evaluation)
        self.window, self.size = window, self.ring_rows(capacity, window)
        dtype = TORCH_DTYPE[formats.activation]

        def ring(name: str, shape: tuple[int, ...], kind: torch.dtype) -> Tensor:
            return memory.alloc(name, (slots, self.size, *shape), kind, role="ring", slot_axis=0, row_axis=1)

        self.ring_x = [ring(f"ring_x.{i}", (layer.heads, layer.head_dim), dtype) for i, layer in enumerate(layers)]
        self.ring_B = [ring(f"ring_B.{i}", (layer.groups, layer.state_dim), dtype) for i, layer in enumerate(layers)]
        self.ring_dt = [ring(f"ring_dt.{i}", (layer.heads,), torch.float32) for i, layer in enumerate(layers)]
        self.used = memory.alloc("used", (slots,), torch.int64, role="cursor", slot_axis=0)
        self.origin = memory.alloc("origin", (slots,), torch.int64, role="cursor", slot_axis=0)

    # -- decisions
    def ring_rows(self, capacity: int, window: int) -> int:
        return capacity + window

    def folds(self, slot: int, length: int) -> bool:
        """Whether a row of `length` tokens folds what is committed."""
        return length > 0 and int(self.used[slot]) + self.window > self.capacity

    def place(self, slot: int, index: int) -> int:
        """Where the token number `index` since the checkpoint lies."""
        return (int(self.origin[slot]) + index) % self.size

    def folded_rows(self, slot: int, length: int) -> int:
        """How many rows a fold takes."""
        return int(self.used[slot])

    def seen(self, slot: int, step: int, *, folds: bool) -> range:
        """Tokens since the checkpoint that the output of the row's token number `step` sees; a fold has taken the committed ones."""
        used = int(self.used[slot])
        return range(used if folds else 0, used + step + 1)

    def settled(self, slot: int, length: int, count: int) -> tuple[int, int, int]:
        """used, origin and tokens in the checkpoint after `count` tokens of a row are kept."""
        used, origin, folded = int(self.used[slot]), int(self.origin[slot]), int(self.folded[slot])
        if self.folds(slot, length):
            return count, (origin + used) % self.size, folded + used
        return used + count, origin, folded

    # -- operations
    def reset_cursor(self, slot: int) -> None:
        super().reset_cursor(slot)
        self.used[slot] = 0
        self.origin[slot] = 0

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        first = 0
        for slot, length in self.rows:
            packed = slice(first, first + length)
            first += length
            if slot == PAD:
                self.pad(layer, tokens[packed], out[packed])
            elif length:
                self.row(layer, slot, tokens[packed], out[packed])

    def row(self, layer: int, slot: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        """Append the row's tokens, fold where that is due, and write all outputs."""
        e, geometry = self.evaluation, self.layers[layer]
        folds, state = self.folds(slot, len(tokens)), self.load(layer, slot)
        for step in range(len(tokens)):
            self.append(layer, slot, self.place(slot, int(self.used[slot]) + step), tokens[slice(step, step + 1)])
        if folds:
            state = e.fold(state, *self.weighted(layer, slot, range(self.folded_rows(slot, len(tokens)))))
            self.store(layer, slot, state)
        for step in range(len(tokens)):
            token = tokens[slice(step, step + 1)].map(lambda t: t[0].to(e.number))
            C = token.C[e.group_of_head(geometry)]
            y = e.output_only(state, *self.weighted(layer, slot, self.seen(slot, step, folds=folds)), C)
            out[step] = e.store_output(self.finish(geometry, y, token.x, token.z), out.dtype)

    def append(self, layer: int, slot: int, place: int, token: Mamba2Tokens) -> None:
        self.ring_x[layer][slot, place] = token.x[0]
        self.ring_B[layer][slot, place] = token.B[0]
        self.ring_dt[layer][slot, place] = self.evaluation.dt(self.layers[layer], token.dt[0]).to(torch.float32)

    def weighted(self, layer: int, slot: int, indices: range) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Weights, x and B of these tokens since the checkpoint, as an evaluation takes them."""
        e = self.evaluation
        places = torch.tensor([self.place(slot, index) for index in indices], dtype=torch.int64)
        x, B, dt = (ring[layer][slot][places].to(e.number) for ring in (self.ring_x, self.ring_B, self.ring_dt))
        return *e.weights(e.decay_rate(self.layers[layer]), dt), x, B[:, e.group_of_head(self.layers[layer])]

    def commit(self, counts: Sequence[int | None]) -> None:
        for row, ((slot, length), count) in enumerate(zip(self.rows, counts, strict=True)):
            self.commit_row(row, slot, length, length if count is None else count)

    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        if slot != PAD:
            self.used[slot], self.origin[slot], self.folded[slot] = self.settled(slot, length, count)

    def copy(self, src: int, dst: int) -> None:
        super().copy(src, dst)
        self.copy_ring(src, dst)

    def copy_ring(self, src: int, dst: int) -> None:
        for buffers in (self.ring_x, self.ring_B, self.ring_dt):
            for buffer in buffers:
                buffer[dst] = buffer[src]
        self.used[dst], self.origin[dst] = self.used[src], self.origin[src]


VERIFY = HostKernel(
    claims=replace(
        REPLAY_CLAIMS, name="host-verify", kind="verify", capacities=(1, 32), windows=(1, 16),
        guarantees=(*REPLAY_CLAIMS.guarantees, "nan_in_draft"),
        policy=replace(REPLAY_CLAIMS.policy, paths={
            "output": REPLAY_CLAIMS.policy.paths["output"],
            "flush": replace(REPLAY_CLAIMS.policy.paths["output"], folds="before"),
        }),
    ),
    session=VerifySession,
)
