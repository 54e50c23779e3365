"""One job measured: a case is played, and every check asked for is made on the plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import KernelError
from replaycheck.judge.relations import determinism, drafts, exact, isolation, movement, poison, speculation, split
from replaycheck.judge.windows import judge_play
from replaycheck.play.result import Play
from replaycheck.play.source import PlaySource
from replaycheck_reference.gauge.functions import FunctionTable

from .checks import CONTRACT, PLAY
from .measurement import Measurement
from .plan import Job

__all__ = ["Compiler", "Measured", "measure"]

Compiler = Callable[[Play, Claims], list[Measurement]]

_RELATIONS: Mapping[str, Callable[[PlaySource, Case], list[Measurement]]] = {
    "poison": poison.check, "isolation": isolation.check, "split": split.check, "movement": movement.check,
    "determinism": determinism.check, "exact": exact.check, "drafts": drafts.check, "speculation": speculation.check,
}

_PROMISE = "a kernel does not raise, crash or hang, and its shapes, dtypes and devices are as agreed"


@dataclass
class Measured:
    """What one job gave. plays: all that were made, the job's own first. error: what stopped it. seconds: how long it took."""

    measurements: list[Measurement] = field(default_factory=list)
    plays: list[Play] = field(default_factory=list)
    error: KernelError | None = None
    seconds: float = 0.0


class _Witness:
    """A source that keeps every play it hands out."""

    def __init__(self, source: PlaySource) -> None:
        self._source = source
        self.plays: list[Play] = []

    @property
    def claims(self) -> Claims:
        return self._source.claims

    def play(self, case: Case, *, poison: str = "finite", take: int = 0) -> Play:
        made = self._source.play(case, poison=poison, take=take)
        if not any(made is known for known in self.plays):
            self.plays.append(made)
        return made


def measure(source: PlaySource, job: Job, table: FunctionTable, compiler: Compiler | None = None) -> Measured:
    """Make the checks of `job`. Never raises for what the kernel does: that becomes a measurement of the guarantee CONTRACT.

    Findings of every play that the checks made are included. compiler: makes the check "compile" on a play, None leaves it out.
    """
    witness, result, started = _Witness(source), Measured(), monotonic()
    try:
        play = witness.play(job.case)
        for check in job.checks:
            result.measurements += _check(witness, play, check, job.case, table, compiler)
    except KernelError as error:
        result.error = error
    result.plays = witness.plays
    if PLAY in job.checks:
        result.measurements += [found for play in witness.plays for found in play.findings]
    if PLAY in job.checks or result.error is not None:
        result.measurements.append(_contract(job.case, len(witness.plays), result.error))
    result.measurements = [_addressed(m, job.case) for m in result.measurements]
    result.seconds = monotonic() - started
    return result


def _check(source: PlaySource, play: Play, check: str, case: Case, table: FunctionTable, compiler: Compiler | None) -> list[Measurement]:
    if check == "windows":
        return judge_play(play, source.claims, table)
    if check in _RELATIONS:
        return [replace(m, case=case.id) for m in _RELATIONS[check](source, case)]  # the case that all the compared plays derive from
    if check == "compile" and compiler is not None:
        return compiler(play, source.claims)
    return []


def _contract(case: Case, plays: int, error: KernelError | None) -> Measurement:
    kept = Measurement(guarantee=CONTRACT, value=0.0, budget=0.0, unit="plays", regime=case.regime, case=case.id, derivation=_PROMISE,
                       facts={"plays": plays})
    if error is None:
        return kept
    return replace(kept, value=1.0, diagnosis=str(error), facts={**kept.facts, "traceback": error.traceback, "printed": error.output})


def _addressed(m: Measurement, case: Case) -> Measurement:
    """The measurement with the case and regime it belongs to, where the check left them out."""
    return replace(m, case=m.case or case.id, regime=m.regime or ("" if m.guarantee == "compile" else case.regime))
