"""Faults that only an interpreter or a compiler sees in full, played in a worker and compiled for sm_90 without a GPU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from judged import FP32, TABLE, broken

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Forward
from replaycheck.cases.schedule import plain
from replaycheck.compile.check import compile_measurements
from replaycheck.compile.compiler import compile_launches
from replaycheck.faults.base import STEP_CLAIMS
from replaycheck.judge.windows import judge_play
from replaycheck.play.result import Play
from replaycheck.play.worker import Worker
from replaycheck.verdict.causes import nearest_cause
from replaycheck.verdict.measurement import Measurement

MODULE = "replaycheck.faults.triton_kernels"
CASE = Case(name="triton", heads=2, head_dim=16, state_dim=16, formats=FP32, slots=2, schedule=plain(2, 2))
LAST_HEADS_ROWS = replace(CASE, head_dim=12, heads=1, slots=1, schedule=plain(1, 2))
IDLE_FIRST_SLOT = replace(CASE, schedule=(Admit(0, 0), Admit(1, 1), *[Forward(((1, 1), (PAD, 1)))] * 2))


@cache
def played(name: str, case: Case) -> tuple[Play, list[Measurement]]:
    with Worker(f"{MODULE}:{name}") as worker:
        play = worker.play(case)
        return play, [*play.findings, *judge_play(play, worker.claims, TABLE)]


@pytest.mark.parametrize("case", [CASE, LAST_HEADS_ROWS, IDLE_FIRST_SLOT], ids=["pair", "head dim 12", "pads"])
def test_the_right_triton_step_passes(case: Case) -> None:
    play, measurements = played("right", case)
    assert not play.stopped
    assert not broken(measurements)


def test_a_tf32_dot_under_an_fp32_claim_is_seen_in_the_outputs() -> None:
    _, measurements = played("tf32_dot", CASE)
    failed = broken(measurements)
    assert "outputs" in failed
    assert "state" not in failed
    assert failed["outputs"] > 50


def test_a_tf32_dot_under_an_fp32_claim_is_seen_in_the_instructions() -> None:
    play, _ = played("tf32_dot", CASE)
    measurements = compile_measurements(compile_launches(play.launches), STEP_CLAIMS)
    assert "compile" in broken(measurements)
    assert any("tf32" in m.diagnosis for m in measurements)


def test_a_pad_row_that_writes_a_live_slot_breaks_the_write_set() -> None:
    _, measurements = played("pad_row_writes", IDLE_FIRST_SLOT)
    failed = broken(measurements)
    assert "write-set" in nearest_cause(failed)


def test_a_store_beyond_the_pool_is_caught_and_named() -> None:
    play, measurements = played("out_of_bounds_store", LAST_HEADS_ROWS)
    named = [m for m in measurements if m.guarantee == "write-set" and not m.passed]
    assert play.stopped
    assert named
    assert "pool" in named[0].diagnosis
