"""Isolation: a request's bits do not depend on its company."""

from __future__ import annotations

from dataclasses import replace

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Op, Release, Restore
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["alone", "check"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """Each request alone against the same request in its batch, pads included. Owed where the kernel claims `batch_invariant`."""
    if "batch_invariant" not in source.claims.guarantees or not _has_company(case):
        return []
    base, single = source.play(case), source.play(alone(case))
    both = {request: request for request, _ in single.outputs}
    return compare("isolation", single, base, promise="claimed: a request's bits do not depend on the other rows",
                   relation="between a request alone and in its batch", requests=both)


def _has_company(case: Case) -> bool:
    return any(isinstance(op, Forward) and len(op.rows) > 1 for op in case.schedule)


def alone(case: Case) -> Case:
    """The admitted requests of `case` one after the other, each in its slot with no other row beside it. Copies are left out."""
    lives: dict[int, list[Op]] = {}
    live: dict[int, int | None] = {}
    for op in case.schedule:
        if isinstance(op, Admit):
            live[op.slot] = op.request
            lives[op.request] = [op]
        elif isinstance(op, Copy):
            live[op.dst] = None
        elif isinstance(op, Forward):
            for slot, length, count in op.accepted():
                own = Forward(((slot, length),), None if op.counts is None else (count,))
                _extend(lives, None if slot == PAD else live[slot], own)
        else:
            _extend(lives, live[op.slot], op)
            if isinstance(op, Release):
                live[op.slot] = None
    ended: list[Op] = []
    for ops in lives.values():
        admit = ops[0]
        assert isinstance(admit, Admit)
        ended += ops if isinstance(ops[-1], Release) else [*ops, Release(admit.slot)]
    return replace(case, name=f"{case.name}, alone", schedule=tuple(ended))


def _extend(lives: dict[int, list[Op]], request: int | None, op: Forward | Release | Restore) -> None:
    if request is not None:
        lives[request].append(op)
