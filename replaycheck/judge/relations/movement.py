"""Movement: a request's bits do not depend on its row, on its slot, or on being copied to another slot on its way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Op, Release, Restore
from replaycheck.cases.stream import Stream
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["check", "moved", "permuted"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """Rows in another order and requests in other slots; then every request copied to a free slot halfway. Owed where the kernel claims
    `batch_invariant`; that a copy holds the bits of its source is owed always and is in the findings of every play."""
    if "batch_invariant" not in source.claims.guarantees:
        return []
    base = source.play(case)
    found = compare("movement", base, source.play(permuted(case)), promise="claimed: a request's bits do not depend on its row or slot",
                    relation="with rows in another order and requests in other slots")
    other, requests = moved(case)
    return found + compare("movement", base, source.play(other), relation="when every request is copied to another slot halfway",
                           promise="claimed: a request copied to another slot goes on in the same bits", requests=requests)


def permuted(case: Case) -> Case:
    """The rows of every forward in another random order, and every slot the same number of places further, in a pool with one slot more."""
    stream, slots = Stream(("movement", case.seed)), case.slots + 1
    distance = stream.integer("distance", 1, slots)

    def further(slot: int) -> int:
        return slot if slot == PAD else (slot + distance) % slots

    def turned(step: int, op: Op) -> Op:
        if isinstance(op, Forward):
            order = stream.permutation(f"rows {step}", len(op.rows))
            counts = None if op.counts is None else tuple(op.counts[i] for i in order)
            return Forward(tuple((further(op.rows[i][0]), op.rows[i][1]) for i in order), counts)
        if isinstance(op, Copy):
            return replace(op, src=further(op.src), dst=further(op.dst))
        return replace(op, slot=further(op.slot))

    return replace(case, name=f"{case.name}, permuted", slots=slots, schedule=tuple(turned(*entry) for entry in enumerate(case.schedule)))


def moved(case: Case) -> tuple[Case, dict[int, int]]:
    """Every request copied to a free slot halfway, inside its ring where that is possible, and its old slot released.

    Returns the case, whose pool has one slot more, and for every request the one that ends its life in the new case.
    """
    return _Moving(case).done()


@dataclass
class _Moving:
    case: Case
    ops: list[Op] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)      # slot of the given case -> slot of the new one
    owner: dict[int, int] = field(default_factory=dict)      # slot of the given case -> its request
    fed: dict[int, int] = field(default_factory=dict)        # request -> forwards it took part in
    final: dict[int, int] = field(default_factory=dict)      # request -> request that goes on with its life

    def done(self) -> tuple[Case, dict[int, int]]:
        self.fresh = max(self.case.lengths, default=-1) + 1
        self.halves = {request: _halfway(count, self.case.capacity) for request, count in _forwards(self.case).items()}
        for op in self.case.schedule:
            self._add(op)
        case = replace(self.case, name=f"{self.case.name}, moved", slots=self.case.slots + 1, schedule=tuple(self.ops))
        return case, self.final

    def _free(self) -> int:
        return next(slot for slot in range(self.case.slots, -1, -1) if slot not in self.place.values())

    def _add(self, op: Op) -> None:
        if isinstance(op, Admit):
            self._settle(op.slot, op.request)
            self.ops.append(replace(op, slot=self.place[op.slot]))
        elif isinstance(op, Copy):
            self._settle(op.dst, op.request)
            self.ops.append(replace(op, src=self.place[op.src], dst=self.place[op.dst]))
        elif isinstance(op, Forward):
            self.ops.append(replace(op, rows=tuple((slot if slot == PAD else self.place[slot], length) for slot, length in op.rows)))
            for slot, length in op.rows:
                if slot != PAD and length:
                    self._count(slot)
        else:
            self.ops.append(replace(op, slot=self.place[op.slot]))
            if isinstance(op, Release):
                del self.place[op.slot], self.owner[op.slot]

    def _settle(self, slot: int, request: int) -> None:
        self.place[slot] = self._free()
        self.owner[slot] = self.final[request] = request
        self.fed[request] = 0

    def _count(self, slot: int) -> None:
        """One more forward of the request in `slot`; after half of them it is copied away."""
        request = self.owner[slot]
        self.fed[request] += 1
        if self.fed[request] != self.halves[request]:
            return
        old, new = self.place[slot], self._free()
        self.ops += [Copy(old, new, self.fresh), Release(old)]
        self.place[slot], self.final[request] = new, self.fresh
        self.fresh += 1


def _forwards(case: Case) -> dict[int, int]:
    """By request, how many forwards it takes part in with at least one token."""
    owner: dict[int, int] = {}
    counts: dict[int, int] = {}
    for op in case.schedule:
        if isinstance(op, Admit):
            owner[op.slot] = op.request
        elif isinstance(op, Copy):
            owner[op.dst] = op.request
        elif isinstance(op, Forward):
            for slot, length in op.rows:
                if slot != PAD and length:
                    counts[owner[slot]] = counts.get(owner[slot], 0) + 1
        elif not isinstance(op, Restore):
            del owner[op.slot]
    return counts


def _halfway(forwards: int, capacity: int) -> int:
    """A forward in the middle, after which the ring is not empty if the capacity allows it; 0 where there is no later one."""
    half = forwards // 2
    if half % capacity == 0 and half + 1 < forwards:
        half += 1
    return half if half < forwards else 0
