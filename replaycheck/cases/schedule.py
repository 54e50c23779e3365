"""Schedules: the serving events of a play in order; their checks and their builders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .events import PAD, STARTS, Admit, Copy, Forward, Op, Release, Restore, Schedule
from .stream import Stream

__all__ = ["PAD", "Admit", "Copy", "Forward", "Op", "Release", "Restore", "Schedule", "lengths", "mixed", "plain", "rejected", "restarted",
           "roots", "speculative", "validate"]


#: What drawn requests start from, in turn.
_DRAWN = ("zero", "random")


def validate(schedule: Sequence[Op], slots: int) -> None:
    """Check that the events can happen in this order in a pool of `slots`. Raises ValueError naming step, event and value."""
    live: dict[int, int] = {}
    seen: set[int] = set()
    for step, op in enumerate(schedule):
        try:
            _check(op, slots, live, seen)
        except ValueError as error:
            raise ValueError(f"schedule step {step}, {op}: {error}") from None


def _check(op: Op, slots: int, live: dict[int, int], seen: set[int]) -> None:
    """Check one event against the live slots and the request ids seen, and apply it to both."""
    if isinstance(op, Admit):
        _check_free(op.slot, slots, live)
        _check_fresh(op.request, seen)
        if op.start not in STARTS:
            raise ValueError(f"start must be one of {', '.join(STARTS)}, got {op.start!r}")
        live[op.slot] = op.request
    elif isinstance(op, Forward):
        _check_rows(op.rows, live)
        _check_counts(op)
    elif isinstance(op, Copy):
        _check_live(op.src, live)
        _check_free(op.dst, slots, live)
        _check_fresh(op.request, seen)
        live[op.dst] = op.request
    elif isinstance(op, Release):
        _check_live(op.slot, live)
        del live[op.slot]
    elif isinstance(op, Restore):
        _check_live(op.slot, live)
    else:
        raise ValueError("this is no event; events are admit, forward, copy, release, restore")


def _check_rows(rows: Sequence[tuple[int, int]], live: dict[int, int]) -> None:
    if not rows:
        raise ValueError("a forward needs at least one row")
    named = [slot for slot, _ in rows if slot != PAD]
    for slot, length in rows:
        if slot != PAD:
            _check_live(slot, live)
        if length < 0:
            raise ValueError(f"row length must be at least 0, got {length}")
    if len(set(named)) != len(named):
        raise ValueError("a forward names a slot twice")


def _check_counts(op: Forward) -> None:
    if op.counts is None:
        return
    if len(op.counts) != len(op.rows):
        raise ValueError(f"a forward needs one count a row, got {len(op.counts)} for {len(op.rows)} rows")
    for (_, length), count in zip(op.rows, op.counts, strict=True):
        if not 0 <= count <= length:
            raise ValueError(f"a row of {length} token(s) cannot keep {count}")


def _check_live(slot: int, live: dict[int, int]) -> None:
    if slot not in live:
        raise ValueError(f"slot {slot} is not live")


def _check_free(slot: int, slots: int, live: dict[int, int]) -> None:
    if not 0 <= slot < slots:
        raise ValueError(f"slot must be in 0..{slots - 1}, got {slot}")
    if slot in live:
        raise ValueError(f"slot {slot} is not free")


def _check_fresh(request: int, seen: set[int]) -> None:
    if request < 0 or request in seen:
        raise ValueError(f"request must be a fresh number of at least 0, got {request}")
    seen.add(request)


def restarted(schedule: Sequence[Op], start: str) -> Schedule:
    """The same events, in which every request that does not start from zero starts from `start`."""
    return tuple(replace(op, start=start) if isinstance(op, Admit) and op.start != "zero" else op for op in schedule)


def roots(schedule: Sequence[Op]) -> dict[int, Admit]:
    """For every request, the Admit its tokens and start state come from: its own, or that of the request it was copied from."""
    live: dict[int, Admit] = {}
    found: dict[int, Admit] = {}
    for op in schedule:
        if isinstance(op, Admit):
            found[op.request] = live[op.slot] = op
        elif isinstance(op, Copy):
            found[op.request] = live[op.dst] = live[op.src]
    return found


def lengths(schedule: Sequence[Op]) -> dict[int, int]:
    """For every request, the position it reaches in its tokens; a copy starts at the position of its source."""
    live: dict[int, int] = {}
    reached: dict[int, int] = {}
    for op in schedule:
        if isinstance(op, Admit):
            live[op.slot] = op.request
            reached[op.request] = 0
        elif isinstance(op, Copy):
            live[op.dst] = op.request
            reached[op.request] = reached[live[op.src]]
        elif isinstance(op, Forward):
            for slot, _, count in op.accepted():
                if slot != PAD:
                    reached[live[slot]] += count
    return reached


def rejected(schedule: Sequence[Op]) -> dict[tuple[int, int], int]:
    """By schedule step and slot of every row with rejected drafts: how many its request has seen rejected before; a copy begins where its
    source stood."""
    seen: dict[int, int] = {}
    places: dict[tuple[int, int], int] = {}
    for step, op in enumerate(schedule):
        if isinstance(op, Admit):
            seen[op.slot] = 0
        elif isinstance(op, Copy):
            seen[op.dst] = seen[op.src]
        elif isinstance(op, Forward):
            for slot, length, count in op.accepted():
                if slot != PAD and count < length:
                    places[step, slot] = seen[slot]
                    seen[slot] += length - count
    return places


def plain(requests: int, tokens: int, *, start: str = "random") -> Schedule:
    """`requests` requests in slots 0..requests-1, each `tokens` windows of one, in one order, no pads.

    Raises ValueError where either is too small.
    """
    if requests < 1 or tokens < 0:
        raise ValueError(f"a plain schedule needs requests >= 1 and tokens >= 0, got {requests} and {tokens}")
    admits = [Admit(slot, slot, start) for slot in range(requests)]
    forward = Forward(tuple((slot, 1) for slot in range(requests)))
    return (*admits, *[forward] * tokens)


def mixed(seed: int, *, slots: int = 4, forwards: int = 16, idle: bool = False) -> Schedule:
    """A random life of a pool: windows of one, pads in any position, a new order of rows every forward, a release, a reuse, a copy.

    The slots 0, slots-1 and 1 are admitted first: the ends of the pool, and neighbours that do not stand at the same position. The ends are
    live at the end. At random forwards, so at any ring position, a slot is released,
    used again, and a live slot is copied. Requests start in turn from zero and from a random state. idle: some rows have length zero.
    Deterministic in its arguments. Raises ValueError where slots < 2 or forwards < 1.
    """
    if slots < 2 or forwards < 1:
        raise ValueError(f"a mixed schedule needs slots >= 2 and forwards >= 1, got {slots} and {forwards}")
    return _Life(Stream(("mixed", seed, slots, forwards)), slots, idle).lived(forwards)


def speculative(seed: int, *, window: int, capacity: int, slots: int = 4, forwards: int = 16) -> Schedule:
    """A life as in `mixed`, of rows of 0 to `window` tokens, none to all of which are accepted.

    A row has the (place in the ring, length, accepted) that the life had least often, so that a long one has them all; places are those of
    a ring of `capacity` that folds where another window would not fit.
    Raises ValueError where slots < 2, forwards < 1, or not 1 <= window <= capacity.
    """
    if slots < 2 or forwards < 1 or not 1 <= window <= capacity:
        raise ValueError(f"a speculative schedule needs slots >= 2, forwards >= 1 and 1 <= window <= capacity, got {slots}, {forwards}, "
                         f"{window} and {capacity}")
    return _SpeculativeLife(Stream(("speculative", seed, window, capacity, slots, forwards)), slots, window, capacity).lived(forwards)


class _Life:
    """A pool of slots while a random life is written down."""

    def __init__(self, stream: Stream, slots: int, idle: bool) -> None:
        self.stream, self.slots, self.idle = stream, slots, idle
        self.live: list[int] = []
        self.ops: list[Op] = []
        self.requests = 0

    def lived(self, forwards: int) -> Schedule:
        self._admit(0)
        self._admit(self.slots - 1)
        if self.slots > 2:
            self._admit(self._free()[0])
        release, reuse, branch = sorted(int(g) for g in self.stream.integers("gaps", (3,), 0, forwards))
        copies_first = bool(self.stream.integer("order", 0, 2))
        for step in range(forwards):
            if step == release:
                self._release()
            if step == reuse:
                self._reuse(copy=copies_first)
            if step == branch:
                if not self._free():
                    self._release()
                self._reuse(copy=not copies_first)
            self._forward(step)
        return tuple(self.ops)

    def _free(self) -> list[int]:
        return [slot for slot in range(self.slots) if slot not in self.live]

    def _admit(self, slot: int) -> None:
        self.ops.append(Admit(slot, self.requests, _DRAWN[(self.requests + self.stream.integer("start", 0, 2)) % 2]))
        self.live.append(slot)
        self.requests += 1

    def _release(self) -> None:
        slot = self.live[self.stream.integer(f"release {len(self.ops)}", 0, len(self.live))]
        self.ops.append(Release(slot))
        self.live.remove(slot)

    def _reuse(self, *, copy: bool) -> None:
        """Fill a free slot, one that was used before if there is one, so that slots 0 and slots-1 are never left empty."""
        used = {op.slot for op in self.ops if isinstance(op, Release)}
        slot = min(self._free(), key=lambda free: free not in used)
        if not copy:
            self._admit(slot)
            return
        src = self.live[self.stream.integer(f"copy {len(self.ops)}", 0, len(self.live))]
        self.ops.append(Copy(src, slot, self.requests))
        self.live.append(slot)
        self.requests += 1

    def _present(self, step: int) -> list[int]:
        """Three in four live slots, at least one."""
        present = self.stream.integers(f"present {step}", (self.slots,), 0, 4)
        return [slot for slot in self.live if present[slot]] or self.live[:1]

    def _forward(self, step: int) -> None:
        """Some live slots in random order, with up to two pads anywhere."""
        chosen = self._present(step)
        zero = self.stream.integers(f"idle {step}", (self.slots,), 0, 4)
        rows = [(slot, 0 if self.idle and not zero[slot] else 1) for slot in chosen]
        rows += [(PAD, 1)] * self.stream.integer(f"pads {step}", 0, 3)
        order = self.stream.permutation(f"order {step}", len(rows))
        self.ops.append(Forward(tuple(rows[i] for i in order)))


class _SpeculativeLife(_Life):
    """A pool of slots while rows have any length and any part of them is accepted.

    used: by slot, tokens in the ring since the last fold. had: how often a cell was drawn.
    """

    def __init__(self, stream: Stream, slots: int, window: int, capacity: int) -> None:
        super().__init__(stream, slots, idle=True)
        self.window, self.capacity = window, capacity
        self.used: dict[int, int] = {}
        self.had: dict[tuple[int, int, int], int] = {}

    def _admit(self, slot: int) -> None:
        super()._admit(slot)
        self.used[slot] = 0

    def _reuse(self, *, copy: bool) -> None:
        super()._reuse(copy=copy)
        op = self.ops[-1]
        if isinstance(op, Copy):
            self.used[op.dst] = self.used[op.src]

    def _forward(self, step: int) -> None:
        """Some live slots in random order, with up to two pads of any length anywhere."""
        rows = [(slot, *self._drawn(step, slot)) for slot in self._present(step)]
        for pad in range(self.stream.integer(f"pads {step}", 0, 3)):
            length = self.stream.integer(f"pad {pad} {step}", 1, self.window + 1)
            rows.append((PAD, length, self.stream.integer(f"pad count {pad} {step}", 0, length + 1)))
        rows = [rows[i] for i in self.stream.permutation(f"order {step}", len(rows))]
        self.ops.append(Forward(tuple((slot, length) for slot, length, _ in rows), tuple(count for _, _, count in rows)))

    def _drawn(self, step: int, slot: int) -> tuple[int, int]:
        """Length and accepted tokens of a row: of those that were drawn least often at this place of the ring."""
        used = self.used[slot]
        every = [(length, count) for length in range(self.window + 1) for count in range(length + 1)]
        order = self.stream.permutation(f"row {slot} {step}", len(every))
        length, count = min((every[i] for i in order), key=lambda row: self.had.get((used, *row), 0))
        self.had[used, length, count] = self.had.get((used, length, count), 0) + 1
        folds = length > 0 and used + self.window > self.capacity
        self.used[slot] = count if folds else used + count
        return length, count
