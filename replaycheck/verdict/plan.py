"""A plan: the cases of a suite that a kernel of given claims can be asked to play, and what of them it cannot."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from replaycheck.cases.case import Case
from replaycheck.cases.families import family
from replaycheck.cases.layers import ROLES, Geometry, preset
from replaycheck.cases.regimes import regime as regime_of
from replaycheck.cases.schedule import Schedule, mixed, plain, speculative
from replaycheck.contract.claims import Claims, Formats
from replaycheck_reference.formats.spec import FORMATS

from .checks import PLAY, Selection
from .suites import WIDEST_WINDOW, Line, Suite

__all__ = ["Job", "Plan", "builds", "nearest", "variants"]

#: Rounds of a speculative life beyond those that fill its ring; and for each token of the window, where every kind of row is wanted.
_MORE, _CELLS = 6, 16

_First = TypeVar("_First")
_Second = TypeVar("_Second")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One case and the checks to make on it."""

    case: Case
    checks: tuple[str, ...]


def builds(claims: Claims) -> list[Formats]:
    """Every claimed build: those whose outputs have the activation format first, and so ordered that the first few show every format."""
    pairs = [(state, claims.activations[(i + shift) % len(claims.activations)])
             for shift in range(len(claims.activations)) for i, state in enumerate(claims.states)]
    found = [Formats(state=state, activation=activation, output=output)
             for state, activation in pairs for output in claims.outputs_of(activation)]
    return sorted(found, key=lambda f: f.activation != f.output)


def _widest(claims: Claims) -> list[Formats]:
    """The build whose formats have the most significand bits."""
    return [max(builds(claims), key=lambda f: [FORMATS[name].precision for name in (f.output, f.state, f.activation)])]


def variants(claims: Claims) -> list[Any]:
    """The form with everything plain that is claimed, then one form for each further claimed feature, then the bare one."""
    return family(claims.recurrence).forms(claims.features, claims.entry)


def nearest(wanted: int, claimed: Sequence[int]) -> int:
    """The claimed dim closest to the wanted one; any dim where none is claimed."""
    return wanted if not claimed or wanted in claimed else min(claimed, key=lambda dim: (abs(dim - wanted), dim))


class _Turns:
    """Takes every value of several lists in turn, each at its own pace, so that no two lists stay in step."""

    def __init__(self) -> None:
        self._count = 0

    def next(self, first: Sequence[_First], second: Sequence[_Second]) -> tuple[_First, _Second]:
        period = math.lcm(len(first), len(second))
        turn, self._count = self._count, self._count + 1
        return first[turn % len(first)], second[(turn + turn // period) % len(second)]


@dataclass
class Plan:
    """The jobs of `suite` for a kernel. not_covered: combinations of the suite that its claims or the regime rule out, in words.

    Everything is drawn from the suite's name, the place in it and `seed`: the same arguments give the same cases.
    """

    suite: Suite
    claims: Claims
    seed: int = 0
    selection: Selection = field(default_factory=Selection)
    not_covered: list[str] = field(default_factory=list)

    def jobs(self) -> Iterator[Job]:
        """The jobs in order; without end for an endless suite that has any."""
        turns = _Turns()
        for round_ in itertools.count():
            made = 0
            for number, line in enumerate(self.suite.lines):
                if line.recurrences and self.claims.recurrence not in line.recurrences:
                    continue
                for job in self._line(turns, f"{self.suite.name}/{number}/{round_}", line):
                    made += 1
                    yield job
            if not self.suite.endless or not made:
                return

    def count(self) -> int | None:
        """How many jobs there are; None for an endless suite."""
        return None if self.suite.endless else sum(1 for _ in replace(self, not_covered=[]).jobs())

    def _line(self, turns: _Turns, where: str, line: Line) -> Iterator[Job]:
        checks = self.selection.checks_of((PLAY, *line.checks))
        if not checks:
            return
        capacities = self._capacities(line)
        number = 0
        for draw in range(line.draws):
            for regime in self.selection.regimes_of(line.regimes):
                for capacity in capacities if line.each_capacity else [capacities[number % len(capacities)]]:
                    layer = line.layers[number % len(line.layers)]
                    case = self._case(turns, f"{where}/{draw}/{number}", line, regime, capacity, layer)
                    number += 1
                    if case is not None:
                        yield Job(case=case, checks=checks)

    def _capacities(self, line: Line) -> list[int]:
        if self.claims.kind == "step":
            return [1]
        low, high = max(self.claims.capacities[0], self.claims.windows[0]), self.claims.capacities[1]
        return [c for c in line.capacities if low <= c <= high] or [min(max(line.capacities[0], low), high)]

    def _case(self, turns: _Turns, where: str, line: Line, regime: str, capacity: int, layer: str) -> Case | None:
        """The case of this place in the suite; where the regime cannot be drawn in the form whose turn it is, in the first that it can."""
        forms = variants(self.claims)
        formats, form = turns.next(_widest(self.claims) if line.widest else builds(self.claims), forms)
        seed = int.from_bytes(hashlib.sha256(f"{self.seed}/{where}".encode()).digest()[:4], "big")
        geometry, window = self._geometry(layer), self._window(line, capacity, seed)
        refused = ""
        for variant in dict.fromkeys((form, *forms)):
            for shorter in range(3):
                try:
                    return Case(
                        name=f"{regime} {layer}", recurrence=self.claims.recurrence,
                        heads=geometry.heads, head_dim=geometry.head_dim, state_dim=geometry.state_dim,
                        groups=geometry.groups, variant=variant, formats=formats, capacity=capacity,
                        window=window,
                        slots=line.requests + 1, layers=line.stack, regime=regime, seed=seed,
                        schedule=self._schedule(line, capacity, window, seed, shorter))
                except ValueError as error:
                    refused = str(error)
                if not regime_of(regime).exact:
                    break
        self.not_covered.append(refused)
        return None

    def _geometry(self, layer: str) -> Geometry:
        made = preset(ROLES.get(self.claims.recurrence, {}).get(layer, layer))
        groups = made.groups if "groups" in self.claims.features else 1
        return replace(made, head_dim=nearest(made.head_dim, self.claims.head_dims), groups=groups,
                       state_dim=nearest(made.state_dim, self.claims.state_dims))

    def _window(self, line: Line, capacity: int, seed: int) -> int:
        """A claimed window that the ring has room for, half of the time and for each_capacity the widest; 1 where none is claimed."""
        if self.claims.kind != "verify":
            return 1
        low, high = self.claims.windows
        widest = max(low, min(high, capacity, WIDEST_WINDOW))
        return widest if line.each_capacity or seed % 2 else low + seed // 2 % (widest - low + 1)

    def _schedule(self, line: Line, capacity: int, window: int, seed: int, shorter: int) -> Schedule:
        """shorter: 0 for the length that the line asks for, then less and less, for regimes that only last so long."""
        if self.claims.kind == "verify":
            rounds = (capacity + (_CELLS * window if line.each_capacity else _MORE) + line.tokens) >> shorter
            return speculative(seed, window=window, capacity=capacity, slots=line.requests + 1, forwards=max(rounds, 1))
        tokens = (2 >> shorter) * capacity + line.tokens if self.claims.kind == "replay" else 2 * line.tokens >> shorter
        if line.schedule == "plain":
            return plain(line.requests, max(tokens, 1))
        return mixed(seed, slots=line.requests + 1, forwards=max(tokens, 1) + line.requests, idle=True)
