"""Kernels whose flush folds the ring before it takes the current token: right ones pass with narrow states, wrong claims do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged import broken, judged

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import mixed, plain
from replaycheck.contract.claims import Formats
from replaycheck.faults.arithmetic import BF16TokenOperands
from replaycheck.faults.host import HostKernel
from replaycheck.faults.variants import VARIANTS
from replaycheck.verdict.checks import CHECKS
from replaycheck.verdict.coverage import Cell, owed_cells
from replaycheck_reference.policy import Path, Policy

UNROUNDED, STORED = VARIANTS["folds-before"].kernel, VARIANTS["folds-before-and-loads"].kernel


def case(seed: int, *, capacity: int = 4, regime: str = "trained-like", state: str = "bf16") -> Case:
    schedule = plain(2, 3 * capacity) if seed % 2 else mixed(seed, slots=3, forwards=4 * capacity)
    return Case(name="", heads=2, head_dim=16, state_dim=16, groups=1, formats=Formats(state=state, activation="fp32", output="fp32"),
                capacity=capacity, slots=3, regime=regime, seed=seed, schedule=schedule)


def claiming(kernel: HostKernel, **flush: str) -> HostKernel:
    """The kernel with another flush path claimed."""
    policy = kernel.claims.policy
    paths = {**policy.paths, "flush": replace(policy.paths["flush"], **flush)}
    return replace(kernel, claims=replace(kernel.claims, policy=replace(policy, paths=paths)))


@pytest.mark.parametrize("kernel", [UNROUNDED, STORED], ids=["unrounded", "stored"])
@pytest.mark.parametrize("state", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("regime", ["trained-like", "slow", "sparse", "outlier"])
def test_a_right_one_passes_in_every_state_format(kernel: HostKernel, state: str, regime: str) -> None:
    for seed in range(6):
        made, measurements = judged(kernel, case(seed, capacity=1 + seed % 4, regime=regime, state=state))
        assert not broken(measurements), (seed, broken(measurements))
        flushes = [(window.paths.index("flush"), len(window.paths)) for window in made.windows if "flush" in window.paths]
        assert flushes and all(position == 0 for position, _ in flushes)


@pytest.mark.parametrize("capacity", [1, 4])
def test_one_that_reads_the_unrounded_state_and_claims_the_stored_one_is_rejected(capacity: int) -> None:
    assert "outputs" in broken(judged(claiming(UNROUNDED, reads="stored"), case(1, capacity=capacity))[1])


@pytest.mark.parametrize("capacity", [1, 4])
def test_a_flush_through_its_own_token_is_not_allowed_the_unrounded_start(capacity: int) -> None:
    assert "outputs" in broken(judged(claiming(UNROUNDED, folds="through"), case(1, capacity=capacity))[1])


def test_the_fold_is_held_to_the_flush_path_though_its_token_comes_later() -> None:
    narrow = replace(UNROUNDED, evaluation=BF16TokenOperands)
    fp32 = case(1, state="fp32")
    assert not broken(judged(claiming(narrow, token="bf16"), fp32)[1])
    assert "state" in broken(judged(narrow, fp32)[1])


def test_the_first_position_of_the_next_window_is_the_one_that_owes_a_flush() -> None:
    cells = owed_cells(replace(UNROUNDED.claims, capacities=(2, 2)))
    outputs = {Cell(capacity=2, position=p, age=a, path="output") for p, a in ((0, 0), (1, 0), (1, 1))}
    assert cells == outputs | {Cell(capacity=2, position=0, age=0, path="flush")}


def test_a_kernel_that_always_has_a_token_pending_owes_no_split() -> None:
    assert CHECKS["split"].owes(UNROUNDED.claims) == ()
    assert CHECKS["split"].owes(claiming(UNROUNDED, folds="through").claims) == ("split",)


def test_only_a_flush_folds_before_its_own_token() -> None:
    with pytest.raises(ValueError, match=r"policy paths.output.folds is 'before'"):
        Policy(paths={"output": Path(folds="before"), "flush": Path()})
