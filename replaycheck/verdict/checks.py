"""The checks by name: what each measures and which kernels owe it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from replaycheck.cases.regimes import DELTA_REGIMES, REGIMES
from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import UsageError
from replaycheck.judge.relations import exact
from replaycheck.judge.windows import WINDOW_GUARANTEES
from replaycheck.play.findings import FINDINGS

__all__ = ["CHECKS", "CONTRACT", "GUARANTEES", "PLAY", "Check", "Selection", "select"]

#: The guarantee that a kernel keeps to the adapter contract: no exception, crash, hang, wrong shape, dtype or device.
CONTRACT = "contract"


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check. guarantees: what it measures. owes: of these, what a kernel of these claims must have measured. purpose: one line."""

    name: str
    guarantees: tuple[str, ...]
    purpose: str
    owes: Callable[[Claims], tuple[str, ...]]


def _all(*guarantees: str) -> Callable[[Claims], tuple[str, ...]]:
    return lambda claims: guarantees


def _batch_invariant(guarantee: str) -> Callable[[Claims], tuple[str, ...]]:
    return lambda claims: (guarantee,) if "batch_invariant" in claims.guarantees else ()


def _split(claims: Claims) -> tuple[str, ...]:
    """Not owed where the state is rounded with random bits, nor where a flush leaves its own token pending, and nothing is ever settled."""
    flush = claims.policy.paths.get("flush") if claims.kind != "step" else None
    pending = flush is not None and flush.folds == "before"
    return () if pending or claims.policy.state.rounding == "stochastic" else ("split",)


def _windows(claims: Claims) -> tuple[str, ...]:
    """Gates can be told only where a state is stored in fp32."""
    return ("outputs", "state", "gates") if "fp32" in claims.states else ("outputs", "state")


#: Name of the check that every play makes by itself.
PLAY = "play"

CHECKS = {
    check.name: check
    for check in (
        Check(name=PLAY, guarantees=(CONTRACT, *FINDINGS), owes=_all(CONTRACT, "write-set", "continuity"),
              purpose="made on every play: the adapter contract, write-sets, bounds, carried states, pads, finite results"),
        Check(name="windows", guarantees=WINDOW_GUARANTEES, owes=_windows,
              purpose="outputs and published states against the exact recurrence, restarted from the kernel's own bits at every window"),
        Check(name="poison", guarantees=("poison",), owes=_all("poison"), purpose="memory that must not be read changes nothing"),
        Check(name="isolation", guarantees=("isolation",), owes=_batch_invariant("isolation"),
              purpose="a request gives the same bits alone and in a batch"),
        Check(name="split", guarantees=("split",), owes=_split,
              purpose="a request restored from its published bits goes on in the same bits"),
        Check(name="movement", guarantees=("movement",), owes=_batch_invariant("movement"),
              purpose="a request gives the same bits in other rows and slots, and after a copy"),
        Check(name="determinism", guarantees=("determinism",), owes=_all("determinism"), purpose="the same play twice gives the same bits"),
        Check(name="drafts", guarantees=("drafts",), owes=lambda claims: ("drafts",) if claims.kind == "verify" else (),
              purpose="rejected drafts leave no trace in what is accepted"),
        Check(name="speculation", guarantees=("speculation",),
              owes=lambda claims: ("speculation",) if "spec_exact" in claims.guarantees else (),
              purpose="accepted tokens have the bits that they have one by one"),
        Check(name="exact", guarantees=("exact",), owes=lambda claims: ("exact",) if exact.owed(claims) else (),
              purpose="on representable inputs the rational answer, bit for bit"),
        Check(name="compile", guarantees=("compile",), owes=_all(),
              purpose="what ran compiles for sm_90, and its instructions stay within the policy"),
    )
}


#: Every guarantee, in the order in which reports and failures list them.
GUARANTEES = tuple(guarantee for check in CHECKS.values() for guarantee in check.guarantees)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What `--only` leaves of a suite. Empty means everything."""

    checks: frozenset[str] = frozenset()
    regimes: frozenset[str] = frozenset()

    def checks_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of these checks the selected ones."""
        return tuple(name for name in names if not self.checks or name in self.checks)

    def regimes_of(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if not self.regimes or name in self.regimes)

    @property
    def whole(self) -> bool:
        return not self.checks and not self.regimes


def select(names: Sequence[str]) -> Selection:
    """The selection of these checks, guarantees and regimes. Raises UsageError naming an unknown one and the known."""
    of_guarantee = {guarantee: check.name for check in CHECKS.values() for guarantee in check.guarantees}
    checks, regimes = set(), set()
    for name in names:
        if name in CHECKS:
            checks.add(name)
        elif name in of_guarantee:
            checks.add(of_guarantee[name])
        elif name in {**REGIMES, **DELTA_REGIMES}:
            regimes.add(name)
        else:
            known = ", ".join((*CHECKS, *(g for g in of_guarantee if g not in CHECKS), *REGIMES, *DELTA_REGIMES))
            raise UsageError(f"--only {name!r} is no check, guarantee or regime; known are {known}")
    return Selection(checks=frozenset(checks), regimes=frozenset(regimes))
