"""Suites measured piece by piece, on demand: what a test runner asks for, one guarantee in one regime at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import ReplaycheckError
from replaycheck.play.source import PlaySource
from replaycheck.play.worker import Worker

from .checks import CHECKS, CONTRACT, PLAY
from .compiling import LaunchCompiler
from .coverage import Cell, Coverage, owed_cells
from .measure import Measured, measure
from .measurement import Measurement
from .plan import Job, Plan
from .results import Failure
from .run import owed
from .suites import Suite
from .tables import table_of

__all__ = ["Answer", "Session", "Sessions"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a suite says of one guarantee in one regime. worst: of all measurements, None where there is none."""

    worst: Measurement | None
    failure: Failure | None


class Session:
    """One kernel, one suite, one source of plays. Every job is measured once, check by check, when first asked for."""

    def __init__(self, source: PlaySource, suite: Suite, *, device: str = "cpu", seed: int = 0) -> None:
        self._source, self._device = source, device
        self._plan = Plan(suite=suite, claims=source.claims, seed=seed)
        self._jobs = list(self._plan.jobs())
        self._compiler = LaunchCompiler(suite.launches)
        self._measured: dict[tuple[str, str], Measured] = {}

    @property
    def claims(self) -> Claims:
        return self._source.claims

    def guarantee(self, guarantee: str, regime: str) -> Answer:
        """All measurements of one guarantee on the jobs of one regime. A kernel that broke the contract on the way fails here too."""
        check = next(name for name, entry in CHECKS.items() if guarantee in entry.guarantees)
        found: list[tuple[Job, Measurement]] = []
        for job in self._jobs:
            if job.case.regime == regime and check in job.checks:
                made = self._on_every_play(job) if check == PLAY else self._measure(job, check).measurements
                found += [(job, m) for m in made if m.guarantee in (guarantee, CONTRACT) and (m.guarantee == guarantee or not m.passed)]
        failed = [(job, m) for job, m in found if not m.passed]
        worst = max((m for _, m in found), key=lambda m: m.ratio, default=None)
        failure = None if not failed else Failure(measurement=failed[0][1], case=failed[0][0].case, more=len(failed) - 1)
        return Answer(worst=worst, failure=failure)

    def gaps(self) -> tuple[str, ...]:
        """What the whole suite leaves unproven: guarantees owed and never measured, cells of the ring never seen."""
        made = [(job, m) for job in self._jobs for m in self._on_every_play(job)]
        guarantees = {m.guarantee for _, m in made}
        seen = frozenset(cell for job, m in made for cell in _cells(job, m))
        unmeasured = tuple(f"nothing was measured for {name}" for name in owed(self._plan) if name not in guarantees)
        return unmeasured + Coverage(owed=owed_cells(self.claims), seen=seen).gaps

    def _on_every_play(self, job: Job) -> list[Measurement]:
        """Everything measured on a job: its plays are those of all checks."""
        return [m for check in job.checks for m in self._measure(job, check).measurements]

    def _measure(self, job: Job, check: str) -> Measured:
        key = (job.case.id, check)
        if key not in self._measured:
            part = Job(case=job.case, checks=tuple(dict.fromkeys((PLAY, check))))
            self._measured[key] = measure(self._source, part, table_of(self._device), self._compiler)
        return self._measured[key]


def _cells(job: Job, m: Measurement) -> Iterator[Cell]:
    for position, age, path in m.facts.get("coverage", ()):
        yield Cell(capacity=job.case.capacity, position=position, age=age, path=path)


class Sessions:
    """The sessions of one process, each with one worker process."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._sessions: dict[tuple[str, str, str, int], Session | ReplaycheckError] = {}

    def of(self, kernel: str, suite: Suite, device: str, seed: int) -> Session | ReplaycheckError:
        """The session of these arguments, opened when first asked for; the error of opening it, where the kernel does not open."""
        key = (kernel, suite.name, device, seed)
        if key not in self._sessions:
            worker = Worker(kernel, device=device)
            self._stack.callback(worker.close)
            try:
                self._sessions[key] = Session(worker, suite, device=device, seed=seed)
            except ReplaycheckError as error:
                self._sessions[key] = error
        return self._sessions[key]

    def close(self) -> None:
        """End all workers."""
        self._stack.close()
