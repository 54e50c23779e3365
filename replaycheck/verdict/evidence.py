"""Evidence: all that a run keeps of its jobs while it goes on."""

from __future__ import annotations

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Claims
from replaycheck.play.result import Play

from .bits import BitsTable
from .confirmation import confirmed
from .coverage import Cell
from .measure import Measured
from .measurement import Measurement
from .plan import Job
from .rounds import Round
from .tally import Tally

__all__ = ["Evidence"]

_WINDOW = ("outputs", "state")


class Evidence:
    """Tally, cells seen, implied bits, the cases drawn, and the worst window with its play. Not safe for threads by itself.

    jobs, plays: how many. drawn: the case of every job, by id. cells: of rings. rounds: of judged plays. compiled: launches compiled.
    """

    def __init__(self, *, claims: Claims) -> None:
        self.claims = claims
        self.tally = Tally()
        self.jobs = 0
        self.plays = 0
        self.compiled = 0
        self.cells: set[Cell] = set()
        self.rounds: set[Round] = set()
        self.drawn: dict[str, Case] = {}
        self._jobs: dict[str, tuple[Job, float]] = {}
        self.bits = BitsTable(claims.policy)
        self._worst: tuple[Measurement, Play] | None = None

    def add(self, job: Job, measured: Measured) -> None:
        """Take in what one job gave."""
        self.jobs += 1
        self.plays += len(measured.plays)
        self.drawn[job.case.id] = job.case
        if "windows" in job.checks and measured.plays:
            self.rounds |= {Round(window=job.case.window, length=length, accepted=accepted, folded=folded)
                            for length, accepted, folded in measured.plays[0].rounds}
        for case in (job.case, *(play.case for play in measured.plays)):
            self._jobs.setdefault(case.id, (Job(case=case, checks=job.checks), measured.seconds))
        self.tally.add(measured.measurements)
        for m in measured.measurements:
            self._note(m, job.case, measured)

    def _note(self, m: Measurement, case: Case, measured: Measured) -> None:
        for position, age, path in m.facts.get("coverage", ()):
            self.cells.add(Cell(capacity=case.capacity, position=position, age=age, path=path))
        self.compiled += m.guarantee == "compile"
        self.bits.add(m, case.formats, case=case.id)
        if m.guarantee in _WINDOW and measured.plays and (self._worst is None or m.ratio > self._worst[0].ratio):
            self._worst = (m, measured.plays[0])

    def job_of(self, m: Measurement) -> tuple[Job, float] | None:
        """The job that the case of a measurement belongs to and the seconds it took; None where no case is to blame."""
        return self._jobs.get(m.case)

    @property
    def worst_case(self) -> Case | None:
        """The case of the worst measurement of the run."""
        worst = self.tally.overall
        found = None if worst is None else self.job_of(worst)
        return None if found is None else found[0].case

    def confirmation(self) -> str:
        """The worst window element computed again in arbitrary precision, in one line; empty where no window was judged."""
        return "" if self._worst is None else confirmed(*self._worst)
