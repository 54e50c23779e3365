"""Drafts: what was rejected changes no bit of what is accepted, beside it or afterwards."""

from __future__ import annotations

from dataclasses import replace

from replaycheck.cases.case import Case
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement

from .compare import compare

__all__ = ["check"]


def check(source: PlaySource, case: Case) -> list[Measurement]:
    """Rejected drafts hold one finite poison, then another; and NaN where the kernel claims `nan_in_draft`. Owed by every verify kernel.

    Outputs of accepted tokens are compared also in the row that the drafts were in: none of them comes after a draft.
    """
    if not case.rejected:
        return []
    base = source.play(case)
    poisons = {"finite": "a large finite poison", "finite-2": "another finite poison"}
    if "nan_in_draft" in source.claims.guarantees:
        poisons["nan"] = "NaN"
    return [
        measurement for poison, name in poisons.items()
        for measurement in compare("drafts", base, source.play(replace(case, name=f"{case.name}, drafts {poison}", drafts=poison)),
                                   relation=f"with {name} in rejected drafts", promise="a rejected draft leaves no trace")
    ]
