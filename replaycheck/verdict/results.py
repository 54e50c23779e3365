"""What a run leaves behind: the verdict and all that a report says about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Claims

from .checks import CONTRACT
from .coverage import Coverage
from .measurement import Measurement
from .tally import Tally
from .verdict import Verdict

__all__ = ["Failure", "ImpliedBits", "Run"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A broken guarantee and the smallest case found that still breaks it.

    measurement: as measured on `case`. case: None where no case is to blame (a compile error, a trace). original: the id of the case that
    failed first, empty where that is `case` itself. more: how many further measurements of this guarantee failed.
    """

    measurement: Measurement
    case: Case | None
    original: str = ""
    more: int = 0

    @property
    def status(self) -> str:
        """"error" where the kernel broke the adapter contract, else "fail"."""
        return "error" if self.measurement.guarantee == CONTRACT else "fail"


@dataclass(frozen=True, kw_only=True)
class ImpliedBits:
    """Significand bits that a quantity behaves as if it had, against what the policy claims: the smallest seen in the run."""

    quantity: str
    claimed: float
    implied: float
    regime: str = ""
    case: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of one suite (or one case, or one trace) on one kernel.

    kernel: the path it was named by. claims: None where the kernel did not open. what: the suite, case or trace that was run. cases: plays
    judged. coverage: None where the kind of kernel or run owes none. not_covered: what the kernel claims and this run did not draw.
    confirmation: the worst window element computed again in arbitrary precision, one line. environment: name -> value. seconds: wall time.
    label: what the files of its report are called, the kernel's name where empty.
    """

    kernel: str
    claims: Claims | None
    what: str
    verdict: Verdict
    tally: Tally
    failures: tuple[Failure, ...] = ()
    coverage: Coverage | None = None
    bits: tuple[ImpliedBits, ...] = ()
    cases: int = 0
    not_covered: tuple[str, ...] = ()
    confirmation: str = ""
    worst_case: Case | None = None
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False
    label: str = ""

    @property
    def worst(self) -> Measurement | None:
        """The measurement of largest ratio of the whole run."""
        return self.tally.overall
