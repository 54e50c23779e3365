"""Serving events, the steps of a schedule, and their JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replaycheck.contract.session import PAD

__all__ = ["PAD", "STARTS", "Admit", "Copy", "Forward", "Op", "Release", "Restore", "Schedule", "from_json", "to_json"]

#: What a request may start from.
STARTS = ("zero", "random", "prefill")


@dataclass(frozen=True)
class Admit:
    """`request`, a fresh id, starts in the free `slot` from a "zero" or a "random" state, or, where the case has a recording, from the
    state that a "prefill" handed over."""

    slot: int
    request: int
    start: str = "random"


@dataclass(frozen=True)
class Forward:
    """One forward over `rows` of (slot or PAD, length). A pad row names no slot; its tokens are filler.

    counts: how many tokens of each row are accepted; the others are drafts that no request ever had. None: every row is accepted whole.
    """

    rows: tuple[tuple[int, int], ...]
    counts: tuple[int, ...] | None = None

    def accepted(self) -> tuple[tuple[int, int, int], ...]:
        """Slot, length and accepted tokens of every row."""
        counts = [length for _, length in self.rows] if self.counts is None else self.counts
        return tuple((slot, length, count) for (slot, length), count in zip(self.rows, counts, strict=True))


@dataclass(frozen=True)
class Copy:
    """The free slot `dst` becomes an independent copy of the live slot `src`: a new `request`, which goes on with src's tokens."""

    src: int
    dst: int
    request: int


@dataclass(frozen=True)
class Release:
    """The request in `slot` is gone and the slot is free."""

    slot: int


@dataclass(frozen=True)
class Restore:
    """The live `slot` is released and admitted again, as the same request, from the bits it has published.

    Every token committed so far must be published; when that is so is the kernel's affair, and the player says where it is not.
    """

    slot: int


Op = Admit | Forward | Copy | Release | Restore
Schedule = tuple[Op, ...]

_NAMES: dict[str, type[Op]] = {"admit": Admit, "forward": Forward, "copy": Copy, "release": Release, "restore": Restore}
_ARITY = {"admit": (3,), "forward": (1, 2), "copy": (3,), "release": (1,), "restore": (1,)}


def to_json(schedule: Sequence[Op]) -> list[list[Any]]:
    """One list an event: ["admit", slot, request, start], ["forward", [[slot, length], ...]], with a list of counts where
    not every row is accepted whole, ["copy", src, dst, request], ["release", slot], ["restore", slot]."""
    return [_op_to_json(op) for op in schedule]


def _op_to_json(op: Op) -> list[Any]:
    if isinstance(op, Admit):
        return ["admit", op.slot, op.request, op.start]
    if isinstance(op, Forward):
        return ["forward", [list(row) for row in op.rows], *([] if op.counts is None else [list(op.counts)])]
    if isinstance(op, Copy):
        return ["copy", op.src, op.dst, op.request]
    return ["restore" if isinstance(op, Restore) else "release", op.slot]


def from_json(data: Any) -> Schedule:
    """The schedule of `to_json`. Raises ValueError naming the step and what is wrong with it."""
    if not isinstance(data, list):
        raise ValueError(f"schedule must be a list of events, got {type(data).__name__}")
    return tuple(_op_from_json(step, entry) for step, entry in enumerate(data))


def _op_from_json(step: int, entry: Any) -> Op:
    if not isinstance(entry, list) or not entry or not isinstance(entry[0], str) or entry[0] not in _NAMES:
        raise ValueError(f"schedule step {step} must be a list that begins with one of {', '.join(_NAMES)}, got {entry!r}")
    name, *values = entry
    if len(values) not in _ARITY[name]:
        raise ValueError(f"schedule step {step}: {name} takes {' or '.join(map(str, _ARITY[name]))} values, got {len(values)}")
    if name == "forward":
        return Forward(_rows_from_json(step, values[0]), _counts_from_json(step, values[1]) if len(values) > 1 else None)
    for value in values[:2] if name == "admit" else values:
        if not _is_int(value):
            raise ValueError(f"schedule step {step}: {name} takes integers, got {value!r}")
    return _NAMES[name](*values)


def _rows_from_json(step: int, rows: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 2 and all(map(_is_int, row)) for row in rows):
        raise ValueError(f"schedule step {step}: rows must be a list of [slot, length], got {rows!r}")
    return tuple((row[0], row[1]) for row in rows)


def _counts_from_json(step: int, counts: Any) -> tuple[int, ...]:
    if not isinstance(counts, list) or not all(map(_is_int, counts)):
        raise ValueError(f"schedule step {step}: counts must be a list of integers, got {counts!r}")
    return tuple(counts)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
