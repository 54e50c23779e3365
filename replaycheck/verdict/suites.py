"""Suites: which checks, on which regimes, layers and capacities, how often. Data, defined once for every front end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from replaycheck.cases.regimes import DELTA_REGIMES

from .checks import CHECKS, PLAY

__all__ = ["SUITES", "WIDEST_WINDOW", "Line", "Suite", "pairs_of"]

#: Regimes in which windows are judged against the exact recurrence.
ANALOGUE = ("trained-like", "slow", "fast", "decay-one", "spike", "extreme-dt", "bend", "positive", "sparse", "outlier", "subnormal",
            "faint", "erase", "readout")

#: The widest window that is drawn where the capacity has room for it.
WIDEST_WINDOW = 4

#: Relations that hold in any regime.
RELATIONS = ("poison", "isolation", "split", "movement", "determinism", "drafts", "speculation")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a suite: every check here on every regime here, `draws` times.

    A verify kernel lives a speculative life in every line, with rows of 0 to `window` tokens; windows are claimed ones up to WIDEST_WINDOW.

    layers: presets, taken in turn, `stack` of one in a stack. schedule: "plain", requests side by side from admit to the end, or "mixed", a
    random life with pads, idle rows, reorders, copies, releases and reuse. capacities: taken in turn, or every one for every regime where
    each_capacity; those that a kernel does not claim are left out, and a step kernel has none. requests: at a time. tokens: more than twice
    the capacity, so that every schedule folds; twice that many for a step kernel. widest: the build of the widest formats, in which a bit
    that differs is not rounded away; else builds are taken in turn. recurrences: of the kernels it is for; none means every one.
    """

    checks: tuple[str, ...]
    regimes: tuple[str, ...]
    layers: tuple[str, ...] = ("tiny",)
    stack: int = 1
    schedule: str = "plain"
    capacities: tuple[int, ...] = (4,)
    each_capacity: bool = False
    requests: int = 2
    tokens: int = 3
    widest: bool = False
    draws: int = 1
    recurrences: tuple[str, ...] = ()


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


#: Every cell of small rings, where each token outweighs what was there before: seen even beside the roundings of a narrow state.
_FLOOR = Line(checks=("windows",), regimes=("bend",), capacities=(1, 2, 3, 4), each_capacity=True, requests=1)

#: Lives of a pool, in which relations between plays are looked for.
_LIVES = Line(checks=("windows", *RELATIONS), regimes=("trained-like",), schedule="mixed", stack=2, capacities=(3,), requests=3,
              widest=True)

#: A batch large enough that a kernel may choose another launch configuration for it.
_CROWD = Line(checks=("isolation",), regimes=("trained-like",), capacities=(2,), requests=36, tokens=1, widest=True)

#: Regimes that show one product alone, in the formats that hide least of it.
_PRODUCTS = Line(checks=("windows",), regimes=("erase", "readout"), capacities=(2,), requests=1, widest=True)

#: What is peculiar to the keys, betas and gates of the delta rules.
_DELTA = Line(checks=("windows",), regimes=tuple(DELTA_REGIMES), layers=("ragged", "tiny"), capacities=(4, 2, 3), requests=1,
              recurrences=("gdn", "kda"))

_WHILE_WRITING = (
    Line(checks=("windows", "compile"), regimes=("trained-like",), layers=("super-small",), requests=1),
    _FLOOR,
    _LIVES,
    _CROWD,
    Line(checks=("windows", "exact"), regimes=("representable",), schedule="mixed", capacities=(3,)),
    Line(checks=("windows",), regimes=tuple(r for r in ANALOGUE[1:] if r != "bend"), layers=("ragged", "tiny"), capacities=(4, 2, 8),
         requests=1),
    Line(checks=("windows",), regimes=("trained-like", "slow", "outlier"), layers=("nano-4b-small", "super-small"), capacities=(5, 8),
         requests=1),
)

_QUICK = (*_WHILE_WRITING, _PRODUCTS, _DELTA)

_MERGE = (
    *_WHILE_WRITING,
    Line(checks=("windows", "compile"), regimes=ANALOGUE, layers=("super-small", "nano-4b-small"), capacities=(4, 8, 16, 1), requests=1),
    Line(checks=("windows", "exact"), regimes=("representable",), schedule="mixed", capacities=(1, 2, 4, 8), each_capacity=True),
    replace(_LIVES, regimes=("trained-like", "outlier", "spike"), capacities=(2, 4, 5, 1), draws=3),
    replace(_CROWD, requests=140),
    replace(_LIVES, regimes=("slow", "positive"), capacities=(4, 3), widest=False, draws=3),
    Line(checks=("windows",), regimes=("slow", "trained-like"), capacities=(32, 16), requests=1),
    Line(checks=("windows",), regimes=ANALOGUE, layers=("tiny", "ragged"), schedule="mixed", capacities=(1, 2, 3, 4, 7), requests=4,
         draws=6),
    _PRODUCTS,
    replace(_DELTA, schedule="mixed", capacities=(1, 2, 3, 4, 8), requests=2, draws=3),
)

_DEEP = (
    *_MERGE,
    replace(_LIVES, regimes=ANALOGUE, layers=("tiny", "super-small", "ragged", "nano-4b-small"), capacities=(1, 2, 3, 4, 5, 8, 16, 32),
            requests=4, widest=False),
    Line(checks=("windows", "exact"), regimes=("representable",), schedule="mixed", capacities=(1, 2, 3, 4, 5, 8, 16, 32), draws=4),
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
    regimes = dict.fromkeys(regime for line in suite.lines if not line.recurrences for regime in line.regimes)
    return [
        (regime, guarantee)
        for regime in regimes
        for check in dict.fromkeys((PLAY, *(check for line in suite.lines if regime in line.regimes for check in line.checks)))
        for guarantee in CHECKS[check].guarantees
    ]
