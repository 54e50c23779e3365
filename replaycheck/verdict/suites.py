"""Suites: which checks, on which regimes, layers and capacities, how often. Data, defined once for every front end."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import CHECKS, PLAY

__all__ = ["SUITES", "Line", "Suite", "pairs_of"]

#: Regimes in which windows are judged against the exact recurrence.
ANALOGUE = ("trained-like", "slow", "fast", "decay-one", "spike", "extreme-dt", "positive", "sparse", "outlier", "subnormal")

#: Relations that hold in any regime.
RELATIONS = ("poison", "isolation", "split", "movement", "determinism")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a suite: every check here on every regime here, `draws` times.

    layers: presets, taken in turn. schedule: "plain", requests side by side from admit to the end, or "mixed", a random life with pads,
    reorders, copies, releases and reuse. capacities: ring capacities taken in turn; those that a kernel does not claim are left out, and a
    step kernel has none. requests, tokens: the size of the schedule; tokens are per ring, so that every schedule folds: a request gets
    `tokens` more than twice the capacity, and a step kernel `tokens` in all. each_capacity: every capacity for every regime, not in turn.
    """

    checks: tuple[str, ...]
    regimes: tuple[str, ...]
    layers: tuple[str, ...] = ("tiny",)
    schedule: str = "plain"
    capacities: tuple[int, ...] = (4,)
    each_capacity: bool = False
    requests: int = 2
    tokens: int = 3
    draws: int = 1


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named suite.

    lines: run in order. seconds: no new case is started after that many, None where `--budget` has to say. endless: after the last line the
    suite starts again with new draws until its time is out. shrink_seconds: time spent on making a failing case smaller.
    launches: how many distinct launches are compiled.
    """

    name: str
    purpose: str
    lines: tuple[Line, ...]
    seconds: float | None
    endless: bool = False
    shrink_seconds: float = 10.0
    launches: int = 2


_FLOOR = Line(checks=("windows",), regimes=("slow",), capacities=(1, 2, 3, 4), each_capacity=True, requests=1)

_QUICK = (
    Line(checks=("windows", "compile"), regimes=("trained-like",), layers=("super-small",), requests=1),
    _FLOOR,
    Line(checks=("windows", "exact"), regimes=("representable",), capacities=(3,), requests=1),
    Line(checks=("windows", *RELATIONS), regimes=("trained-like",), schedule="mixed", capacities=(3,), requests=3),
    Line(checks=("windows",), regimes=ANALOGUE[2:], capacities=(4, 2, 8), requests=1),
)

_MERGE = (
    *_QUICK,
    Line(checks=("windows", "compile"), regimes=ANALOGUE, layers=("super-small", "nano-4b-small"), capacities=(4, 8, 16, 1), requests=1),
    Line(checks=("windows", "exact"), regimes=("representable",), schedule="mixed", capacities=(1, 2, 4, 8), each_capacity=True,
         requests=3),
    Line(checks=("windows", *RELATIONS), regimes=("trained-like", "outlier", "spike"), schedule="mixed", capacities=(2, 4, 5, 1),
         requests=3, draws=2),
    Line(checks=("windows",), regimes=("slow", "trained-like"), layers=("tiny",), capacities=(32, 16), requests=1),
    Line(checks=("windows",), regimes=ANALOGUE, schedule="mixed", capacities=(1, 2, 3, 4, 7), requests=4, draws=3),
)

_DEEP = (
    *_MERGE,
    Line(checks=("windows", *RELATIONS), regimes=ANALOGUE, layers=("tiny", "super-small", "nano-4b-small"), schedule="mixed",
         capacities=(1, 2, 3, 4, 5, 8, 16, 32), requests=4),
    Line(checks=("windows", "exact"), regimes=("representable",), schedule="mixed", capacities=(1, 2, 3, 4, 5, 8, 16, 32), requests=4,
         draws=4),
)

SUITES = {
    suite.name: suite
    for suite in (
        Suite(name="quick", purpose="while writing a kernel: every guarantee once, within 90 seconds", lines=_QUICK, seconds=90.0),
        Suite(name="merge", purpose="before a merge: every regime, format and layer shape, within 8 minutes", lines=_MERGE, seconds=480.0,
              shrink_seconds=40.0, launches=12),
        Suite(name="deep", purpose="new draws until the seconds of --budget are out", lines=_DEEP, seconds=None, endless=True,
              shrink_seconds=60.0, launches=24),
    )
}


def pairs_of(suite: Suite) -> list[tuple[str, str]]:
    """Every (regime, guarantee) that the suite measures, regime by regime."""
    regimes = dict.fromkeys(regime for line in suite.lines for regime in line.regimes)
    return [
        (regime, guarantee)
        for regime in regimes
        for check in dict.fromkeys((PLAY, *(check for line in suite.lines if regime in line.regimes for check in line.checks)))
        for guarantee in CHECKS[check].guarantees
    ]
