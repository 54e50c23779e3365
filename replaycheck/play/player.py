"""The player: walks a case's schedule through a kernel and notes everything it does. The only module that touches a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Op, Release, Restore
from replaycheck.contract.bits import count_differing
from replaycheck.contract.errors import UsageError
from replaycheck.contract.memory import Memory, fill_poison, guarded
from replaycheck.contract.session import Kernel, Session
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Layer, Tokens

from .findings import Findings
from .interpreted import bounds_restriction, launch_recording
from .ledger import Life, Track
from .packed import PackedOutput, PackedTokens, filler
from .reader import OutputReader, StateReader, check_finite
from .result import Play
from .supported import check_supported
from .watch import OutOfBoundsStop, Watch
from .windows import Window

__all__ = ["play"]


def play(kernel: Kernel, case: Case, *, poison: str = "finite", device: str = "cpu") -> Play:
    """One execution of `case`, in this process.

    poison: what free slots, scratch, pads and guard bands hold (contract.memory.POISONS). Raises KernelError in one line where the kernel
    raised or returned a wrong shape, dtype or device; UsageError where the case is outside the kernel's claims.
    """
    check_supported(kernel.claims, case)
    return _Player(kernel, case, poison, device).played()


class _Player:
    """One play. Slots, lives and memory while it lasts."""

    session: Session
    states: StateReader

    def __init__(self, kernel: Kernel, case: Case, poison: str, device: str) -> None:
        self.kernel, self.case, self.poison = kernel, case, poison
        self.device = torch.device(device)
        self.state, self.activation = TORCH_DTYPE[case.formats.state], TORCH_DTYPE[case.formats.activation]
        self.output = TORCH_DTYPE[case.formats.output]
        self.on_alloc = bounds_restriction()
        self.memory = Memory(self.device, poison=poison, on_alloc=self.on_alloc)
        self.findings = Findings()
        self.outputs = OutputReader(self.findings, pad_output=kernel.claims.pad_output)
        self.watch = Watch(self.memory, self.findings, slots=case.slots)
        self.layers = [self._layer(i) for i in range(case.layers)]
        self.tokens = {(request, i): case.tokens(request, i) for request in case.lengths for i in range(case.layers)}
        self.live: dict[int, Life] = {}
        self.ended: list[Life] = []
        self.windows: list[Window] = []
        self.settled: list[tuple[int, int]] = []
        self.rounds: list[tuple[int, int, bool]] = []
        self.forwards = 0
        self.step = -1

    def _layer(self, i: int) -> Layer:
        """Layer i on the device; its parameters are inputs that nothing may change."""
        layer = self.case.layer(i).to(self.device)
        for name, parameter in layer.parameters().items():
            self.watch.protect(f"{name} of layer {i}", parameter)
            self._handed_out(parameter)
        return layer

    def _handed_out(self, tensor: Tensor) -> None:
        if self.on_alloc is not None:
            self.on_alloc(tensor)

    def played(self) -> Play:
        started = time.perf_counter()
        recording: AbstractContextManager[list[Any]] = launch_recording() or nullcontext([])
        stopped = ""
        with recording as launches:
            try:
                self._walk()
            except OutOfBoundsStop as stop:
                stopped = str(stop)
        lives = sorted((*self.ended, *self.live.values()), key=lambda life: life.request)
        for life in lives:
            self._close_unpublished(life)
        return Play(
            case=self.case, windows=self.windows, settled=self.settled, rounds=self.rounds, poison=self.poison, stopped=stopped,
            launches=list(launches),
            outputs={(life.request, i): self._all_outputs(track) for life in lives for i, track in enumerate(life.tracks)},
            published={(life.request, i): track.published for life in lives for i, track in enumerate(life.tracks)},
            findings=self.findings.measurements(case=self.case.id, regime=self.case.regime, poison=self.poison),
            seconds=time.perf_counter() - started,
        )

    def _walk(self) -> None:
        case = self.case
        window = {"window": case.window} if self.kernel.claims.kind == "verify" else {}
        self.session = self.watch.call("open", -1, range(case.slots), lambda: self.kernel.open(
            self.layers, formats=case.formats, capacity=case.capacity, slots=case.slots, memory=self.memory, seed=case.seed & 0x7FFFFFFF,
            **window))
        self.states = StateReader(self.session, self.watch, shape=self.layers[0].state_shape, dtype=self.state, device=self.device)
        for slot in range(case.slots):
            self.memory.poison_slot(slot)
        self.watch.refresh()
        acts: dict[type[Op], Callable[[Any], None]] = {
            Admit: self._admit, Forward: self._forward, Copy: self._copy, Release: self._release, Restore: self._restore,
        }
        for step, op in enumerate(case.schedule):
            self.step = step
            acts[type(op)](op)

    # -- events

    def _admit(self, op: Admit) -> None:
        starts = [self.case.start(op.request, i) for i in range(self.case.layers)]
        given = [start for start in starts if start is not None]
        self._hand_over(op.slot, given or None)
        zero = torch.zeros(self.layers[0].state_shape, dtype=self.state)
        tracks = [Track(bits=(zero if start is None else start).to(self.device, copy=True)) for start in starts]
        self.live[op.slot] = Life(request=op.request, slot=op.slot, tracks=tracks)
        self._hold_published([self.live[op.slot]], "admit")

    def _hand_over(self, slot: int, states: list[Tensor] | None) -> None:
        """Admit `states` into the poisoned slot, from tensors that are poisoned afterwards: admit copies."""
        self._poison_slot(slot)
        given = None if states is None else [self._guarded_copy(state) for state in states]
        self.watch.call("admit", self.step, [slot], lambda: self.session.admit(slot, given))
        for i, (copy, state) in enumerate(zip(given or [], states or [], strict=True)):
            self.findings.compared("write-set", state.numel())
            changed = count_differing(copy, state.to(self.device))
            if changed:
                self.findings.violated("write-set", changed, f"admit changed {changed} element(s) of the state it was given",
                                       buffer=f"states[{i}]", step=self.step, operation="admit")
            fill_poison(copy, self.poison)

    def _guarded_copy(self, state: Tensor) -> Tensor:
        view, storage = guarded(state.shape, state.dtype, self.device, guard=1)
        fill_poison(storage, self.poison)
        view.copy_(state)
        self._handed_out(view)
        return view

    def _copy(self, op: Copy) -> None:
        source = self.live[op.src]
        self._hold_published([source], "before copy")
        self._poison_slot(op.dst)
        self.watch.call("copy", self.step, [op.dst], lambda: self.session.copy(op.src, op.dst))
        self.live[op.dst] = source.copied(op.request, op.dst)
        self._hold_published([self.live[op.dst], source], "copy")

    def _release(self, op: Release) -> None:
        life = self.live[op.slot]
        self._hold_published([life], "before release")
        self.watch.call("release", self.step, [op.slot], lambda: self.session.release(op.slot))
        self._poison_slot(op.slot)
        self.ended.append(self.live.pop(op.slot))

    def _restore(self, op: Restore) -> None:
        life = self.live[op.slot]
        if life.pending():
            ahead = life.committed - min(track.position for track in life.tracks)
            raise UsageError(f"case {self.case.id}: schedule step {self.step} restores slot {op.slot}, "
                             f"where {ahead} committed token(s) are not published yet")
        self._hold_published([life], "before release")
        self.watch.call("release", self.step, [op.slot], lambda: self.session.release(op.slot))
        life.base = life.committed
        self._hand_over(op.slot, [track.bits.clone() for track in life.tracks])
        self._hold_published([life], "admit")

    def _poison_slot(self, slot: int) -> None:
        self.memory.poison_slot(slot)
        self.watch.refresh()

    def _forward(self, op: Forward) -> None:
        self._hold_published(self.live.values(), "between forwards")
        self.memory.poison_scratch()
        self.watch.refresh()
        rows = list(op.rows)
        lengths = {slot: length for slot, length in rows if slot != PAD and length > 0}
        self.watch.call("begin", self.step, lengths, lambda: self.session.begin(rows))
        ran = [self._run(i, op, lengths) for i in range(self.case.layers)]
        kept = [None if op.counts is None else count for _, _, count in op.accepted()]
        self.watch.call("commit", self.step, lengths, lambda: self.session.commit(kept))
        for packed, _ in ran:
            packed.discard(self.poison)
        for slot, length, count in op.accepted():
            if slot in lengths:
                self._settle(self.live[slot], length, count, [outputs[slot] for _, outputs in ran])
        self.watch.hold("stored", self.step, [], reads_only=True)
        self.forwards += 1

    def _run(self, i: int, op: Forward, may_write: Iterable[int]) -> tuple[PackedTokens, dict[int, Tensor]]:
        """Run layer i; every other forward is handed strided tensors. Returns its packed tokens and, by slot, its outputs."""
        strided = self.forwards % 2 == 1
        rows = list(op.rows)
        parts = [self._row_tokens(i, *row) for row in op.accepted()]
        packed = PackedTokens(parts, self.device, strided=strided, poison=self.poison, on_alloc=self.on_alloc)
        total = sum(length for _, length in rows)
        out = PackedOutput(total, self.layers[i], self.output, self.device, strided=strided, on_alloc=self.on_alloc)
        self.watch.call(f"run of layer {i}", self.step, may_write, lambda: self.session.run(i, packed.tokens, out.view))
        self.findings.compared("write-set", packed.elements())
        for name, changed in packed.changed():
            self.findings.violated("write-set", changed, f"run changed {changed} element(s) of its input {name} or beside it",
                                   buffer=f"tokens.{name}", step=self.step, layer=i, operation="run")
        judged = None if self.case.drafts == "drawn" else {slot: count for slot, _, count in op.accepted()}
        return packed, self.outputs.read(rows, out, judged, step=self.step, layer=i)

    def _row_tokens(self, i: int, slot: int, length: int, count: int) -> Tokens:
        """The next tokens of a row: those that will be accepted, and then drafts that the request never has."""
        if slot == PAD:
            return filler(self.layers[i], length, self.activation, self.poison)
        life = self.live[slot]
        own: Any = self.tokens[life.request, i][slice(life.committed, life.committed + count)]
        rows: Tokens = own if count == length else type(own).cat([own, self._drafts(life, i, length - count)])
        return rows

    def _drafts(self, life: Life, i: int, count: int) -> Tokens:
        return self.case.draft_tokens(life.request, self.step, life.slot, count, i)

    # -- what was published

    def _settle(self, life: Life, length: int, count: int, outputs: list[Tensor]) -> None:
        """The first `count` tokens of a row of `life` were committed: note their outputs, and close a window in every layer whose state was
        published. Outputs of rejected drafts are a window of their own, after all that the drafts saw: from the state published now where
        it holds none of the row's tokens, else from the one before."""
        before, published = life.committed, len(life.tracks[0].published)
        life.committed += count
        for i, track in enumerate(life.tracks):
            stored = self.states.stored(life.slot, i, self.step)
            position = life.base + stored.folded
            advanced = track.position < position <= life.committed
            path = "step" if self.kernel.claims.kind == "step" else "flush" if advanced else "output"
            track.append(outputs[i][:count], path, self.step)
            drafted = count < length and self.case.drafts == "drawn"
            if drafted and position > before:
                self._note_drafts(life, i, outputs[i][count:], path)
            if advanced:
                bits = stored.bits.cpu().clone()
                check_finite(self.findings, "state", bits, request=life.request, slot=life.slot, step=self.step, layer=i)
                self.windows.append(track.close(life, i, self.tokens[life.request, i], position - track.position, bits))
                track.publish(stored.bits, position)
            else:
                self.states.compare(life, i, stored, "commit", self.step)
            if drafted and position <= before:
                self._note_drafts(life, i, outputs[i][count:], path)
        self.rounds.append((length, count, len(life.tracks[0].published) > published))
        if not life.pending():
            self.settled.append((self.step, life.slot))

    def _note_drafts(self, life: Life, i: int, outputs: Tensor, path: str) -> None:
        drafts = self._drafts(life, i, len(outputs))
        self.windows.append(life.tracks[i].drafted(life, i, self.tokens[life.request, i], drafts, outputs, path, self.step))

    def _hold_published(self, lives: Iterable[Life], when: str) -> None:
        """Every one of these lives still has the bits it last published."""
        for life in lives:
            for i in range(self.case.layers):
                self.states.compare(life, i, self.states.stored(life.slot, i, self.step), when, self.step)
        self.watch.hold("stored", self.step, [], reads_only=True)

    def _close_unpublished(self, life: Life) -> None:
        """Windows of the tokens after the last publication."""
        for i, track in enumerate(life.tracks):
            if track.outputs:
                self.windows.append(track.close(life, i, self.tokens[life.request, i], len(track.outputs), None))

    def _all_outputs(self, track: Track) -> Tensor:
        empty = torch.empty(0, self.case.heads, self.case.head_dim, dtype=self.output)
        return torch.cat([empty, *track.everything])
