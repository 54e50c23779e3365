"""Poison: what lies in memory that must not be read changes nothing."""

from __future__ import annotations

from replaycheck.cases.case import Case
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["check"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """Free slots, pads, scratch and guard bands hold one finite poison, then another; and NaN where the kernel claims `nan_poison`.

    Owed by every kernel.
    """
    base = source.play(case)
    found = compare("poison", base, source.play(case, poison="finite-2"), relation="under another finite poison",
                    promise="finite values in memory that must not be read change no bit")
    if "nan_poison" in source.claims.guarantees:
        found += compare("poison", base, source.play(case, poison="nan"), relation="under NaN poison",
                         promise="claimed: NaN in memory that must not be read changes no bit")
    return found
