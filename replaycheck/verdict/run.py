"""The run: a suite, or one case, measured on a kernel, and the verdict made of what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from replaycheck.cases.case import Case
from replaycheck.contract.errors import KernelError
from replaycheck.play.source import PlaySource
from replaycheck_reference.gauge.functions import FunctionTable

from .causes import by_cause
from .checks import CHECKS, CONTRACT, GUARANTEES, PLAY, Selection
from .coverage import Cell, Coverage, owed_cells
from .crew import ENOUGH_ERRORS, Crew, Progress
from .evidence import Evidence
from .measure import Compiler, measure
from .measurement import Measurement
from .plan import Job, Plan
from .reasons import reasons
from .recorded import RecordedPlan
from .results import Failure, Run
from .rounds import Round, owed_rounds, rounds_gap
from .shrink import shrink
from .suites import Suite
from .tally import Tally
from .uncovered import uncovered

__all__ = ["owed", "run_case", "run_recording", "run_suite", "unopened"]

#: Seconds spent on making a failing case of a recording smaller.
_SHRINK_SECONDS = 10.0
#: Failing guarantees for which a smaller case is looked for.
_SHRUNK = 3


def run_suite(
    sources: Sequence[PlaySource], suite: Suite, *, kernel: str, table: FunctionTable, seed: int = 0, budget: float | None = None,
    selection: Selection | None = None, strict: bool = False, compiler: Compiler | None = None, progress: Progress | None = None,
) -> Run:
    """Run a suite on a kernel that one or more `sources` play, at the same time. Nothing that the kernel does makes this raise.

    kernel: what it is called in reports. table: backend function table. budget: seconds after which no new case is started, instead of the
    suite's own. selection: what to leave of the suite; a part of it owes only itself. compiler: makes the check "compile".
    Raises ValueError where a suite without a time of its own is given no budget.
    """
    seconds = suite.seconds if budget is None else budget
    if seconds is None:
        raise ValueError(f"suite {suite.name} runs until its time is out: give it a budget in seconds")
    plan = Plan(suite=suite, claims=sources[0].claims, seed=seed, selection=selection or Selection())
    evidence = Evidence(claims=plan.claims)
    crew = Crew(sources=sources, table=table, compiler=compiler, evidence=evidence, progress=progress, deadline=monotonic() + seconds)
    floor = None if plan.claims.kind == "step" else owed_cells(plan.claims) if plan.selection.whole else frozenset()
    rounds = owed_rounds(plan.claims) if plan.selection.whole else frozenset()
    run = _run(crew, plan.jobs(), owed=owed(plan), floor=floor, rounds=rounds, shrink_seconds=suite.shrink_seconds, strict=strict)
    left = ["time was out before the suite ended"] if crew.late and not suite.endless else []
    left += [f"the suite was left after {ENOUGH_ERRORS} errors or a hang"] if crew.given_up else []
    return replace(run, kernel=kernel, what=f"suite {suite.name}" + ("" if plan.selection.whole else " in part"),
                   not_covered=(*dict.fromkeys(plan.not_covered), *uncovered(plan.claims, evidence), *left))


def run_case(
    source: PlaySource, job: Job, *, kernel: str, table: FunctionTable, strict: bool = False, compiler: Compiler | None = None
) -> Run:
    """Measure one job; the verdict is about this case alone."""
    evidence = Evidence(claims=source.claims)
    crew = Crew(sources=[source], table=table, compiler=compiler, evidence=evidence, progress=None, deadline=math.inf)
    owed = ("outputs",) if "windows" in job.checks else ()      # a case that moves no token shows nothing of a kernel
    run = _run(crew, [job], owed=owed, floor=None, shrink_seconds=0.0, strict=strict)
    return replace(run, kernel=kernel, what=f"case {job.case.id}", not_covered=("everything but this case",),
                   label=f"{source.claims.name[:80]} case {job.case.id}")


def run_recording(
    sources: Sequence[PlaySource], plan: RecordedPlan, *, kernel: str, table: FunctionTable, budget: float | None = None,
    strict: bool = False, compiler: Compiler | None = None, progress: Progress | None = None,
) -> Run:
    """Play a recording on a kernel, as run_suite runs a suite. The verdict is about these inputs: no cell of the ring is owed."""
    evidence = Evidence(claims=plan.claims)
    deadline = math.inf if budget is None else monotonic() + budget
    crew = Crew(sources=sources, table=table, compiler=compiler, evidence=evidence, progress=progress, deadline=deadline)
    run = _run(crew, plan.jobs(), owed=plan.owed, floor=None, shrink_seconds=_SHRINK_SECONDS, strict=strict)
    stem = Path(plan.recording.path).stem
    left = ["time was out before the recording ended"] if crew.late else []
    left += [f"the recording was left after {ENOUGH_ERRORS} errors or a hang"] if crew.given_up else []
    return replace(run, kernel=kernel, what=f"recording {stem}" + ("" if plan.selection.whole else " in part"),
                   label=f"{plan.claims.name[:80]} recording {stem[:40]}",
                   not_covered=("everything but this recording: no regime of the suites", *dict.fromkeys(plan.not_covered), *left))


def unopened(kernel: str, what: str, error: KernelError) -> Run:
    """The run of a kernel that could not even be opened."""
    tally = Tally()
    broken = Measurement(guarantee=CONTRACT, value=math.inf, budget=0.0, unit="plays", derivation="a kernel opens", diagnosis=str(error),
                         facts={"traceback": error.traceback})
    tally.add([broken])
    return Run(kernel=kernel, claims=None, what=what, verdict=reasons(tally, subject="kernel"), tally=tally,
               failures=(Failure(measurement=broken, case=None),))


def owed(plan: Plan) -> tuple[str, ...]:
    """The guarantees that a run of this plan must have measured: those that the selected checks of its suite owe."""
    regimes: dict[str, set[str]] = {PLAY: {regime for line in plan.suite.lines for regime in line.regimes}}
    for line in plan.suite.lines:
        for check in line.checks:
            regimes.setdefault(check, set()).update(line.regimes)
    return tuple(guarantee for check in plan.selection.checks_of(regimes) if plan.selection.regimes_of(regimes[check])
                 for guarantee in CHECKS[check].owes(plan.claims))


def _run(
    crew: Crew, jobs: Iterable[Job], *, owed: Sequence[str], floor: frozenset[Cell] | None, shrink_seconds: float, strict: bool,
    rounds: frozenset[Round] = frozenset(),
) -> Run:
    """Measure the jobs, make failing cases smaller, and give the verdict.

    owed, floor, rounds: guarantees, cells and kinds of rows without which nothing is proven.
    """
    started, evidence, interrupted = monotonic(), crew.evidence, False
    try:
        crew.work(iter(jobs))
        failures = tuple(_failures(crew, shrink_seconds))
    except KeyboardInterrupt:
        interrupted = True
        failures = tuple(_failures(crew, 0.0))
    tally = evidence.tally
    coverage = None if floor is None else Coverage(owed=floor, seen=frozenset(evidence.cells))
    gaps = [f"nothing was measured for {name}" for name in owed if name not in tally.guarantees]
    gaps += ["nothing was measured"] if not tally.total and not gaps else []
    gaps += [] if coverage is None else coverage.gaps
    gaps += rounds_gap(rounds, evidence.rounds)
    gaps += [f"interrupted after {evidence.jobs} cases"] if interrupted else []
    gaps += [f"time was out after {evidence.jobs} cases"] if gaps and crew.late else []
    return Run(
        kernel="", what="", claims=evidence.claims, tally=tally, failures=failures, coverage=coverage, bits=evidence.bits.quoted,
        verdict=reasons(tally, subject=f"{evidence.claims.kind} kernel", gaps=gaps, strict=strict), cases=evidence.plays,
        confirmation="" if interrupted else evidence.confirmation(), worst_case=evidence.worst_case, interrupted=interrupted,
        seconds=monotonic() - started,
    )


def _failures(crew: Crew, seconds: float) -> Iterator[Failure]:
    """One failure per broken guarantee, nearest the cause first: the first measurement, on the smallest case found that still breaks it."""
    broken = by_cause(sorted(crew.evidence.tally.failures, key=GUARANTEES.index))
    share = seconds / max(min(len(broken), _SHRUNK), 1)
    for number, guarantee in enumerate(broken):
        first, more = crew.evidence.tally.failures[guarantee][0], crew.evidence.tally.failed[guarantee] - 1
        found = None if guarantee == "compile" else crew.evidence.job_of(first)
        if found is None:
            yield Failure(measurement=first, case=None, more=more)
            continue
        job, took = found
        case, measurement = job.case, first
        if number < _SHRUNK and took < share:
            case, measurement = shrink(job.case, first, crew.evidence.claims, _attempt(crew, guarantee, job), seconds=share)
        yield Failure(measurement=measurement, case=case, original="" if case.id == job.case.id else job.case.id, more=more)


def _attempt(crew: Crew, guarantee: str, job: Job) -> Callable[[Case], Measurement | None]:
    """Plays a candidate with the checks that can break `guarantee`: any of them where every play can."""
    anyone = guarantee in CHECKS[PLAY].guarantees
    checks = tuple(name for name in job.checks if anyone or guarantee in CHECKS[name].guarantees)

    def attempt(case: Case) -> Measurement | None:
        found = measure(crew.sources[0], Job(case=case, checks=checks), crew.table).measurements
        return next((m for m in found if m.guarantee == guarantee and not m.passed), None)

    return attempt
