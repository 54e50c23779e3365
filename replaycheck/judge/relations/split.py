"""Split: a request that goes on from its published bits goes on in the same bits."""

from __future__ import annotations

from dataclasses import replace

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Op, Release, Restore
from replaycheck.play.result import Play
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["check", "restored"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """Requests released and admitted again from the bits they have published. Owed by every kernel that rounds without random bits.

    Where the kernel claims `phase_invariant`, the case is also played with another capacity: its tokens stand elsewhere in the ring.
    """
    if source.claims.policy.state.rounding == "stochastic":
        return []
    base = source.play(case)
    found: list[Measurement] = []
    split = restored(base)
    if split is not None:
        found += compare("split", base, source.play(split), promise="restored bits continue as the bits that were never away",
                         relation="when requests are released and restored at a publication")
    other = _other_capacity(source, case)
    if other is not None:
        found += compare("split", base, source.play(other), relation=f"at capacity {other.capacity} instead of {case.capacity}",
                         promise="claimed: a request's bits do not depend on where in the ring it stands")
    return found


def restored(play: Play) -> Case | None:
    """The case of a play with one Restore in the life of every request, after the commit halfway among those that published all its tokens
    and are not its last; None where there is no such commit."""
    points: dict[int, list[tuple[int, int]]] = {}
    for step, slot in play.settled:
        request = _request_at(play.case.schedule, step, slot)
        if _goes_on(play.case.schedule, step, slot):
            points.setdefault(request, []).append((step, slot))
    chosen = {moments[len(moments) // 2] for moments in points.values()}
    if not chosen:
        return None
    ops: list[Op] = []
    for step, op in enumerate(play.case.schedule):
        ops.append(op)
        ops += [Restore(slot) for at, slot in sorted(chosen) if at == step]
    return replace(play.case, name=f"{play.case.name}, restored", schedule=tuple(ops))


def _request_at(schedule: tuple[Op, ...], step: int, slot: int) -> int:
    """The request that occupies `slot` at `step`."""
    for op in reversed(schedule[:step]):
        if isinstance(op, Admit) and op.slot == slot or isinstance(op, Copy) and op.dst == slot:
            return op.request
    raise ValueError(f"no request is in slot {slot} at schedule step {step}")


def _goes_on(schedule: tuple[Op, ...], step: int, slot: int) -> bool:
    """Whether the request in `slot` receives more tokens after `step`."""
    for op in schedule[step + 1:]:
        if isinstance(op, Release) and op.slot == slot:
            return False
        if isinstance(op, Forward) and any(named == slot and length for named, length in op.rows if named != PAD):
            return True
    return False


def _other_capacity(source: PlaySource, case: Case) -> Case | None:
    """The case with one ring row less, or one more; None where the kernel does not claim phase invariance or has no other capacity."""
    low, high = source.claims.capacities
    if "phase_invariant" not in source.claims.guarantees or low == high:
        return None
    capacity = case.capacity - 1 if case.capacity > low else case.capacity + 1
    return replace(case, name=f"{case.name}, capacity {capacity}", capacity=capacity)
