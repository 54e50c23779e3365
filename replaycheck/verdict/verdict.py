"""The verdict: one word for a whole run, made of measurements and of what was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["EXIT_INTERRUPTED", "EXIT_USAGE", "ORDER", "Verdict", "decide", "worst_exit"]

#: From best to worst; the worst one present is the verdict.
ORDER = ("pass", "not proven", "fail", "error")

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_EXITS = {"pass": 0, "fail": 1, "not proven": 3, "error": 4}
#: A session over several kernels ends with the worst of these, later ones being worse.
_EXIT_ORDER = (0, 3, 1, 4, EXIT_USAGE, EXIT_INTERRUPTED)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One word and its reasons.

    status: of ORDER. subject: what the word is about ("replay kernel"). suspicious: a pass with a warning.
    reasons: one line each: guarantees broken, guarantees not proven, warnings. strict: a suspicious pass counts as a failure.
    """

    status: str
    subject: str
    suspicious: bool = False
    reasons: tuple[str, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        if self.status not in ORDER:
            raise ValueError(f"verdict.status must be one of {', '.join(ORDER)}, got {self.status!r}")

    @property
    def exit_code(self) -> int:
        return _EXITS[self.status]

    @property
    def headline(self) -> str:
        """For example "pass as replay kernel"."""
        note = " (suspicious)" if self.suspicious and self.status == "pass" else ""
        return f"{self.status} as {self.subject}{note}"


def decide(
    *, subject: str, errors: Sequence[str], failures: Sequence[str], gaps: Sequence[str], warnings: Sequence[str], strict: bool = False
) -> Verdict:
    """The verdict of a run: error > fail > not proven > pass.

    errors: what stopped the kernel. failures: guarantees broken. gaps: what is owed and was not measured. warnings: measurements within
    their budget, but beyond what right kernels show; `strict` makes them failures. Gaps are no reason where something worse is known.
    """
    if strict:
        failures = (*failures, *warnings)
    found = {"error": errors, "fail": failures, "not proven": gaps}
    status = next((word for word in reversed(ORDER) if found.get(word)), "pass")
    reasons = (*errors, *failures, *(gaps if status == "not proven" else ()), *(() if strict else warnings))
    return Verdict(status=status, subject=subject, suspicious=bool(warnings), reasons=reasons, strict=strict)


def worst_exit(codes: Sequence[int]) -> int:
    """The exit code of a session over several kernels: the worst of theirs, 0 where there is none."""
    return max(codes, key=_EXIT_ORDER.index, default=0)
