"""Determinism: the same case gives the same bits."""

from __future__ import annotations

from replaycheck.cases.case import Case
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["check"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """The case played twice, each time in a fresh session of one launch configuration. Owed by every kernel."""
    return compare("determinism", source.play(case), source.play(case, take=1), promise="one case, one launch configuration: one result",
                   relation="in a second session")
