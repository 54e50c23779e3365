"""Wrong sessions: one overridden method each. What each stands for is told in `faults.FAULTS`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

from .base import mixed
from .evaluation import Evaluation
from .host import ReplaySession, RingSession
from .rounding import through
from .variants import SplitSums

__all__ = [
    "AdvancesOnPads", "AdvancesPerLayer", "BF16RingDt", "BF16RingX", "BatchDependentSums", "CopyForgetsRing", "CopyRestartsRing",
    "CurrentTokenExcluded", "DeadRowRead", "FirstRowsGates", "ForgetsStart", "HiddenResidual", "LastTileDropped", "LosesToken",
    "MultipliesMask", "OverwritesBetweenForwards", "PadWritesLastSlot", "PadWritesOutput", "ReadsStored", "RowAsOneToken",
    "SkipOmittedOnFlush",
    "SlotDependentSums", "StaleCursor", "StoresPastEnd", "WritesInputs", "WritesNeighbour",
]


# -- ring ------------------------------------------------------------------------------------------------------------------------
class LosesToken(ReplaySession):
    def folds(self, live: Tensor) -> Tensor:
        return live & (torch.arange(self.capacity) < self.capacity - 1)


class CurrentTokenExcluded(RingSession):
    def live(self, position: int) -> Tensor:
        return torch.arange(self.capacity) < max(position, 1)


class DeadRowRead(RingSession):
    def live(self, position: int) -> Tensor:
        return torch.arange(self.capacity) <= position + 1


class MultipliesMask(RingSession):
    def mask(self, rows: Tensor, live: Tensor) -> Tensor:
        return rows * live.reshape(-1, *[1] * (rows.dim() - 1))


class RowAsOneToken(RingSession):
    def position(self, slot: int, step: int) -> int:
        return super().position(slot, 0)


class BF16RingDt(ReplaySession):
    def append(self, layer: int, slot: int, position: int, token: Mamba2Tokens, dt: Tensor) -> None:
        super().append(layer, slot, position, token, through(dt, torch.bfloat16))


class BF16RingX(ReplaySession):
    def append(self, layer: int, slot: int, position: int, token: Mamba2Tokens, dt: Tensor) -> None:
        super().append(layer, slot, position, token, dt)
        self.ring_x[layer][slot, position] = through(token.x[0], torch.bfloat16)


class SkipOmittedOnFlush(ReplaySession):
    def close(self, geometry: Mamba2Layer, y: Tensor, token: Mamba2Tokens, *, folds: bool) -> Tensor:
        x = torch.zeros_like(token.x) if folds else token.x
        return super().close(geometry, y, Mamba2Tokens(x=x, dt=token.dt, B=token.B, C=token.C, z=token.z), folds=folds)


class ReadsStored(RingSession):
    def unrounded(self, state: Tensor) -> Tensor:
        return through(state, self.states[0].dtype)


# -- cursors, copies, reuse ------------------------------------------------------------------------------------------------------
class AdvancesOnPads(RingSession):
    def advance(self, slot: int, length: int) -> None:
        super().advance(slot, length)
        if slot == PAD:
            self.filled[slot] = (self.filled[slot] + length) % self.capacity


class AdvancesPerLayer(RingSession):
    def run(self, layer: int, tokens: Any, out: Tensor) -> None:
        super().run(layer, tokens, out)
        if layer + 1 < len(self.layers):
            for slot, length in self.rows:
                self.advance(slot, length)


class StaleCursor(RingSession):
    def reset_cursor(self, slot: int) -> None:
        self.folded[slot] = 0


class CopyForgetsRing(RingSession):
    def copy_ring(self, src: int, dst: int) -> None:
        self.filled[dst] = self.filled[src]


class CopyRestartsRing(RingSession):
    def copy_ring(self, src: int, dst: int) -> None:
        self.filled[dst] = 0


class ForgetsStart(RingSession):
    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        super().admit(slot, None)


# -- writes ----------------------------------------------------------------------------------------------------------------------
class PadWritesLastSlot(RingSession):
    def pad(self, layer: int, tokens: Any, out: Tensor) -> None:
        for step in range(len(tokens)):
            self.token(layer, PAD, step, tokens[slice(step, step + 1)])


class PadWritesOutput(RingSession):
    def pad(self, layer: int, tokens: Any, out: Tensor) -> None:
        out.zero_()


class OverwritesBetweenForwards(RingSession):
    """After an ordinary step the checkpoint of the slot is put through bf16 in place."""

    def advance(self, slot: int, length: int) -> None:
        super().advance(slot, length)
        if slot != PAD and int(self.filled[slot]) != 0:
            for layer in range(len(self.layers)):
                self.states[layer][slot] = through(self.states[layer][slot], torch.bfloat16)


class WritesNeighbour(RingSession):
    def store(self, layer: int, slot: int, state: Tensor) -> None:
        super().store(layer, slot, state)
        if slot + 1 < self.slots:
            super().store(layer, slot + 1, state)


class HiddenResidual(RingSession):
    """What rounding took from the state is kept aside and added again at the next load, until the slot is admitted anew."""

    def __init__(self, layers: Sequence[Any], *, formats: Formats, capacity: int, slots: int, memory: Memory,
                 evaluation: Evaluation) -> None:
        super().__init__(layers, formats=formats, capacity=capacity, slots=slots, memory=memory, evaluation=evaluation)
        self.residual: dict[tuple[int, int], Tensor] = {}

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        super().admit(slot, states)
        self.residual = {key: kept for key, kept in self.residual.items() if key[1] != slot}

    def load(self, layer: int, slot: int) -> Tensor:
        return super().load(layer, slot) + self.residual.get((layer, slot), torch.zeros(()))

    def store(self, layer: int, slot: int, state: Tensor) -> None:
        super().store(layer, slot, state)
        self.residual[layer, slot] = state - super().load(layer, slot)


class StoresPastEnd(RingSession):
    def store(self, layer: int, slot: int, state: Tensor) -> None:
        super().store(layer, slot, state)
        pool = self.states[layer]
        torch.as_strided(pool, (1,), (1,), pool.storage_offset() + pool.numel())[0] = 0


class WritesInputs(ReplaySession):
    def token(self, layer: int, slot: int, step: int, token: Mamba2Tokens) -> Tensor:
        y = super().token(layer, slot, step, token)
        token.x.mul_(2)
        return y


class LastTileDropped(RingSession):
    """Head dim in tiles of eight; the last, incomplete tile is never written."""

    def run(self, layer: int, tokens: Any, out: Tensor) -> None:
        kept = self.layers[layer].head_dim // 8 * 8
        whole = torch.empty_like(out)
        super().run(layer, tokens, whole)
        first = 0
        for slot, length in self.rows:
            if slot != PAD:
                out[first : first + length, :, :kept] = whole[first : first + length, :, :kept]
            first += length


# -- dependence on other rows ------------------------------------------------------------------------------------------------------
class FirstRowsGates(ReplaySession):
    """dt of the batch's first row for every row."""

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        shared = tokens.dt[:1].expand_as(tokens.dt)
        super().run(layer, Mamba2Tokens(x=tokens.x, dt=shared, B=tokens.B, C=tokens.C, z=tokens.z), out)


class BatchDependentSums(RingSession):
    """The split of a sum depends on how many rows the forward has."""

    def run(self, layer: int, tokens: Any, out: Tensor) -> None:
        whole = self.evaluation
        self.evaluation = whole if len(self.rows) == 1 else mixed(SplitSums, type(whole))()
        super().run(layer, tokens, out)
        self.evaluation = whole


class SlotDependentSums(RingSession):
    """The split of a sum depends on the slot."""

    def token(self, layer: int, slot: int, step: int, token: Any) -> Tensor:
        whole = self.evaluation
        self.evaluation = mixed(SplitSums, type(whole))() if slot % 2 else whole
        y = super().token(layer, slot, step, token)
        self.evaluation = whole
        return y
