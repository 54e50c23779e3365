"""Speculation: accepted tokens have the bits that they have in rows of one token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Forward, Op
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["check", "one_by_one"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """The case against the one without drafts, every token in a row of its own. Bits are owed where the kernel claims `spec_exact`; else
    both plays are held to the exact recurrence, and on representable inputs to one rational answer."""
    if "spec_exact" not in source.claims.guarantees or not case.speculative:
        return []
    plain = replace(case, name=f"{case.name}, one by one", schedule=one_by_one(case.schedule))
    return compare("speculation", source.play(case), source.play(plain), relation="from decode of the accepted tokens one by one",
                   promise="claimed: speculative decode has the bits of decode without drafts")


def one_by_one(schedule: tuple[Op, ...]) -> tuple[Op, ...]:
    """The events with every forward taken apart: forwards of one token a row, as many as the most that a row accepted, without pads."""
    return tuple(event for op in schedule for event in (_taken_apart(op) if isinstance(op, Forward) else (op,)))


def _taken_apart(op: Forward) -> Iterator[Forward]:
    accepted = [(slot, count) for slot, _, count in op.accepted() if slot != PAD]
    for number in range(max((count for _, count in accepted), default=0)):
        yield Forward(tuple((slot, 1) for slot, count in accepted if number < count))
