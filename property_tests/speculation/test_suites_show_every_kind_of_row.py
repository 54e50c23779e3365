"""The floor of a verify kernel: kinds of rows that a suite owes, and that its schedules have them whatever the seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replaycheck.adapters.mamba2_verify import SAVING_CLAIMS, VERIFY_CLAIMS
from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward
from replaycheck.contract.claims import Claims
from replaycheck.verdict.checks import select
from replaycheck.verdict.plan import Plan
from replaycheck.verdict.rounds import Round, owed_rounds, rounds_gap
from replaycheck.verdict.suites import SUITES


def met(case: Case) -> set[Round]:
    """The rows of a case as a ring sees them that folds where another window would not fit."""
    used: dict[int, int] = {}
    found = set()
    for op in case.schedule:
        if isinstance(op, Admit):
            used[op.slot] = 0
        elif isinstance(op, Copy):
            used[op.dst] = used[op.src]
        elif isinstance(op, Forward):
            for slot, length, count in op.accepted():
                if slot != PAD and length:
                    folds = used[slot] + case.window > case.capacity
                    found.add(Round(window=case.window, length=length, accepted=count, folded=folds))
                    used[slot] = count if folds else used[slot] + count
    return found


@pytest.mark.parametrize("suite", ["quick", "merge"])
def test_the_floor_is_met_whatever_the_seed(suite: str) -> None:
    for seed in range(12):
        plan = Plan(suite=SUITES[suite], claims=VERIFY_CLAIMS, seed=seed, selection=select(["bend"]))
        seen = set().union(*(met(job.case) for job in plan.jobs() if "windows" in job.checks))
        assert rounds_gap(owed_rounds(VERIFY_CLAIMS), seen) == ()


def test_where_a_row_is_published_whole_it_folds_where_it_keeps_something() -> None:
    assert {round_.folded == (round_.accepted > 0) for round_ in owed_rounds(SAVING_CLAIMS)} == {True}
    assert len(owed_rounds(VERIFY_CLAIMS)) == 2 * len(owed_rounds(SAVING_CLAIMS)) == 2 * (2 + 5 + 9 + 14)


def test_a_kernel_owes_the_windows_it_claims() -> None:
    two: Claims = replace(VERIFY_CLAIMS, windows=(2, 2))
    assert {round_.window for round_ in owed_rounds(two)} == {2}
    assert owed_rounds(replace(two, kind="replay")) == frozenset()


def test_what_is_missing_is_said_in_one_line() -> None:
    owed = owed_rounds(replace(VERIFY_CLAIMS, windows=(2, 2)))
    assert rounds_gap(owed, owed) == ()
    [line] = rounds_gap(owed, owed - {Round(window=2, length=2, accepted=1, folded=True)})
    assert line == "schedules: 9 of 10 kinds of rows seen; first missing: window 2, 2 token(s), 1 accepted, folding"
