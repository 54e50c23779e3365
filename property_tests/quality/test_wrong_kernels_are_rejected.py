"""Every wrong kernel is rejected, and the guarantee it breaks is named nearest the cause; the right kernel passes the same case."""

from __future__ import annotations

from functools import cache

import pytest
from judged import TABLE, broken

from replaycheck.cases.case import Case
from replaycheck.contract.session import Kernel
from replaycheck.faults.base import REPLAY
from replaycheck.faults.delta_faults import DELTA_FAULTS
from replaycheck.faults.delta_host import gdn_replay, kda_replay
from replaycheck.faults.faults import FAULTS
from replaycheck.judge.relations import determinism, exact, isolation, movement, poison, split
from replaycheck.judge.windows import judge_play
from replaycheck.play.source import InProcess
from replaycheck.verdict.causes import nearest_cause
from replaycheck.verdict.measurement import Measurement

EVERY = {**FAULTS, **DELTA_FAULTS}
RIGHT = {"mamba2": REPLAY, "gdn": gdn_replay, "kda": kda_replay}
RELATIONS = (poison, isolation, movement, split, determinism, exact)


def measured(kernel: Kernel, case: Case) -> list[Measurement]:
    """Findings, window checks and every relation check of one case."""
    source = InProcess(kernel)
    play = source.play(case)
    relations = [m for relation in RELATIONS for m in relation.check(source, case)]
    return [*play.findings, *judge_play(play, kernel.claims, TABLE), *relations]


@cache
def of(name: str) -> list[Measurement]:
    """What a fault measures on its own case."""
    return measured(EVERY[name].kernel, EVERY[name].case)


@pytest.mark.parametrize("name", EVERY)
def test_a_wrong_kernel_is_rejected_and_its_broken_guarantee_is_nearest_the_cause(name: str) -> None:
    fault, failed = EVERY[name], broken(of(name))
    assert fault.guarantee in failed, f"{fault.story}: broke {failed or 'nothing'}"
    assert fault.guarantee in nearest_cause(failed), f"{fault.story}: broke {failed}"


@pytest.mark.parametrize("name", EVERY)
def test_the_failure_says_what_it_looks_like(name: str) -> None:
    named = [m for m in of(name) if m.guarantee == EVERY[name].guarantee and not m.passed]
    assert named
    assert all(m.diagnosis for m in named)


@pytest.mark.parametrize("case", {fault.case.id: fault.case for fault in EVERY.values()}.values(), ids=lambda case: case.name)
def test_the_right_kernel_passes_the_case_of_every_fault(case: Case) -> None:
    assert not broken(measured(RIGHT[case.recurrence], case))


@pytest.mark.parametrize("recurrence", RIGHT)
def test_every_fault_tells_a_story_of_its_own(recurrence: str) -> None:
    stories = [fault.story for fault in EVERY.values() if fault.case.recurrence == recurrence]
    assert len(set(stories)) == len(stories) >= 12


def test_faults_of_every_recurrence_have_names_of_their_own() -> None:
    assert len(EVERY) == len(FAULTS) + len(DELTA_FAULTS) and all(fault.kernel.claims.name == name for name, fault in EVERY.items())
