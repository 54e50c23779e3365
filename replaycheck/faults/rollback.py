"""Wrong sessions of speculative decode: one overridden decision each. What each stands for is told in `drafts.DRAFT_FAULTS`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from replaycheck.contract.session import PAD
from replaycheck_reference.layer import Mamba2Tokens

from .speculation import VerifySession


# -- accept and reject -----------------------------------------------------------------------------------------------------------
class FoldsDrafts(VerifySession):
    def folded_rows(self, slot: int, length: int) -> int:
        return int(self.used[slot]) + length


class KeepsRejected(VerifySession):
    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        super().commit_row(row, slot, length, length)


class ForgetsCertainToken(VerifySession):
    """Counts drafts where a count has the certain token in it; a row accepted whole is told apart."""

    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        super().commit_row(row, slot, length, count if count == length else max(count - 1, 0))


class ZeroTakenForOne(VerifySession):
    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        super().commit_row(row, slot, length, max(count, min(length, 1)))


class ZeroTakenForAll(VerifySession):
    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        super().commit_row(row, slot, length, count or length)


class DiscardForgetsFold(VerifySession):
    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        if count:
            super().commit_row(row, slot, length, count)


class CountsWithoutPads(VerifySession):
    """Counts packed for the rows that name a slot, and read by the number of the row."""

    def commit(self, counts: Sequence[int | None]) -> None:
        named = [count for (slot, _), count in zip(self.rows, counts, strict=True) if slot != PAD]
        padded = [*named, *[0] * (len(counts) - len(named))]
        super().commit([None if c is None else min(c, length) for (_, length), c in zip(self.rows, padded, strict=True)])


class GatesOfFullRows(VerifySession):
    """dt read where the row would lie if every row had the whole window."""

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        places = [min(row * self.window + step, len(tokens) - 1) for row, (_, length) in enumerate(self.rows) for step in range(length)]
        dt = tokens.dt[torch.tensor(places, dtype=torch.int64)]
        super().run(layer, Mamba2Tokens(x=tokens.x, dt=dt, B=tokens.B, C=tokens.C, z=tokens.z), out)


class NoDraftReadsFirstState(VerifySession):
    """A row of one token goes on from the first token of the row before it, whatever was accepted there."""

    last: dict[int, int]

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        self.last = getattr(self, "last", {})
        super().begin(rows)

    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        if length == 1 and self.last.get(slot, 0) > 1 and not self.folds(slot, length):
            self.used[slot] -= self.last[slot] - 1
        super().commit_row(row, slot, length, count)
        self.last[slot] = count if not self.folds(slot, self.window) else 0

    def copy_ring(self, src: int, dst: int) -> None:
        super().copy_ring(src, dst)
        self.last[dst] = self.last.get(src, 0)


class DecidesWithAccepted(VerifySession):
    """The fold is decided again at the commit, with what was accepted in place of the window."""

    def settled(self, slot: int, length: int, count: int) -> tuple[int, int, int]:
        used, origin, folded = int(self.used[slot]), int(self.origin[slot]), int(self.folded[slot])
        if used + count > self.capacity:
            return count, (origin + used) % self.size, folded + used
        return used + count, origin, folded


# -- ring ------------------------------------------------------------------------------------------------------------------------
class SeesFoldedRows(VerifySession):
    def seen(self, slot: int, step: int, *, folds: bool) -> range:
        return range(int(self.used[slot]) + step + 1)


class OriginStays(VerifySession):
    def settled(self, slot: int, length: int, count: int) -> tuple[int, int, int]:
        used, _, folded = super().settled(slot, length, count)
        return used, int(self.origin[slot]), folded


class OriginByAccepted(VerifySession):
    def settled(self, slot: int, length: int, count: int) -> tuple[int, int, int]:
        used, origin, folded = super().settled(slot, length, count)
        return used, (int(self.origin[slot]) + count) % self.size if self.folds(slot, length) else origin, folded


class RingWithoutRoom(VerifySession):
    def ring_rows(self, capacity: int, window: int) -> int:
        return capacity


class FoldsTooLate(VerifySession):
    def folds(self, slot: int, length: int) -> bool:
        return length > 0 and int(self.used[slot]) + 1 > self.capacity


class RingDoesNotTurn(VerifySession):
    def place(self, slot: int, index: int) -> int:
        return min(int(self.origin[slot]) + index, self.size - 1)


class MasksOddSize(VerifySession):
    """A mask of size - 1 where the size is no power of two."""

    def place(self, slot: int, index: int) -> int:
        return (int(self.origin[slot]) + index) & (self.size - 1)


class FoldLosesNewest(VerifySession):
    def folded_rows(self, slot: int, length: int) -> int:
        return max(int(self.used[slot]) - 1, 1)


class FoldLosesOldest(VerifySession):
    def weighted(self, layer: int, slot: int, indices: range) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        used = int(self.used[slot])
        return super().weighted(layer, slot, range(1, used) if indices == range(used) and used > 1 else indices)


class SeesOneRowMore(VerifySession):
    def seen(self, slot: int, step: int, *, folds: bool) -> range:
        usual = super().seen(slot, step, folds=folds)
        return range(usual.start, min(usual.stop + (int(self.used[slot]) > 0), self.size))


class OriginOfFirstSlot(VerifySession):
    def place(self, slot: int, index: int) -> int:
        return (int(self.origin[1 % self.slots]) + index) % self.size


# -- slots, starts, copies -------------------------------------------------------------------------------------------------------
class StaleCursor(VerifySession):
    def reset_cursor(self, slot: int) -> None:
        self.folded[slot] = 0


class OneTokenKeepsOldState(VerifySession):
    """A first row of one token is taken for decode, which has a state already: that of the slot's last tenant."""

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        if states is None:
            self.reset_cursor(slot)
            self.fresh = {*getattr(self, "fresh", set()), slot}
        else:
            super().admit(slot, states)

    def row(self, layer: int, slot: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        if slot in getattr(self, "fresh", set()):
            if len(tokens) > 1:
                for pool in self.states:
                    pool[slot] = 0
            self.fresh.discard(slot)
        super().row(layer, slot, tokens, out)


class AloneDropsStart(VerifySession):
    """A start state is dropped where the batch has one row."""

    def row(self, layer: int, slot: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        if len(self.rows) == 1 and int(self.used[slot]) + int(self.folded[slot]) == 0:
            self.states[layer][slot] = 0
        super().row(layer, slot, tokens, out)


class CopyForgetsRing(VerifySession):
    def copy_ring(self, src: int, dst: int) -> None:
        self.used[dst], self.origin[dst] = self.used[src], self.origin[src]


class CopyForgetsOrigin(VerifySession):
    def copy_ring(self, src: int, dst: int) -> None:
        super().copy_ring(src, dst)
        self.origin[dst] = 0


class CopyForgetsPending(VerifySession):
    def copy_ring(self, src: int, dst: int) -> None:
        super().copy_ring(src, dst)
        self.used[dst] = 0


class CopySharesRing(VerifySession):
    """The copy's rows are its source's: what the source appends later, the copy reads."""

    def copy_ring(self, src: int, dst: int) -> None:
        super().copy_ring(src, dst)
        self.lent = {**getattr(self, "lent", {}), dst: src}

    def weighted(self, layer: int, slot: int, indices: range) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        source = getattr(self, "lent", {}).get(slot)
        if source is not None:
            row = self.place(slot, 0)
            self.ring_x[layer][slot, row] = self.ring_x[layer][source, row]
        return super().weighted(layer, slot, indices)


# -- pads ------------------------------------------------------------------------------------------------------------------------
class PadsAdvance(VerifySession):
    def commit_row(self, row: int, slot: int, length: int, count: int) -> None:
        self.used[slot], self.origin[slot], self.folded[slot] = self.settled(slot, length, count)


class PadsAppend(VerifySession):
    def pad(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        for step in range(len(tokens)):
            self.append(layer, PAD, self.place(PAD, int(self.used[PAD]) + step), tokens[slice(step, step + 1)])


class PadsWriteOutput(VerifySession):
    def pad(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        out.zero_()


class EmptyRowsFold(VerifySession):
    def folds(self, slot: int, length: int) -> bool:
        return int(self.used[slot]) + self.window > self.capacity


class SlotZeroIsNull(VerifySession):
    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        super().begin([(PAD if slot == 0 else slot, length) for slot, length in rows])


class CursorsMoveWithEachLayer(VerifySession):
    """Layers share the cursors, and each moves those of full rows."""

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        super().run(layer, tokens, out)
        if layer + 1 < len(self.layers):
            for row, (slot, length) in enumerate(self.rows):
                self.commit_row(row, slot, length, length)
