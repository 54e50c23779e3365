"""Inference finds the policy a kernel declares, or a smaller one that explains it as well; it never looks at what is declared."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from lattice_order import looser

from replaycheck.faults.base import STEP
from replaycheck.faults.faults import FAULTS
from replaycheck.faults.host import HostKernel
from replaycheck.faults.variants import VARIANTS
from replaycheck.infer.infer import Inference, infer
from replaycheck.infer.search import Finding
from replaycheck.infer.stages import start
from replaycheck.play.source import InProcess
from replaycheck_reference.gauge.functions import load_table

TABLE = load_table("numpy")
#: Regimes of confirmation: those in which host kernels differ most. The command line takes all.
CONFIRMED = ("extreme-dt",)
RIGHT = {"step": STEP, **{name: VARIANTS[name].kernel for name in ("naive-softplus", "folds-before-and-loads")}}


@cache
def inferred(name: str) -> Inference:
    kernel = RIGHT.get(name) or FAULTS[name].kernel
    return infer(InProcess(kernel), TABLE, regimes=CONFIRMED)


def found(name: str, field: str) -> Finding:
    return next(f for f in inferred(name).findings if f.field == field)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_found_explains_and_is_no_looser_than_what_is_declared(name: str) -> None:
    answer, kernel = inferred(name), RIGHT[name]
    assert not answer.unexplained
    assert looser(kernel.claims, answer.claims.policy) == []
    assert answer.claims == replace(kernel.claims, policy=answer.claims.policy)


@pytest.mark.parametrize(("name", "field", "values"), [
    ("naive-softplus", "softplus", ("naive",)),
    ("folds-before-and-loads", "paths.flush.folds", ("before",)),
    ("folds-before-and-loads", "paths.flush.weights", ("difference",)),
    ("naive-softplus", "paths.flush.folds", ("through",)),
    ("naive-softplus", "paths.flush.accumulator", ("fp32",)),
    ("bf16-ring-dt", "ring_dt", ("bf16",)),
])
def test_a_field_that_shows_is_found(name: str, field: str, values: tuple[str, ...]) -> None:
    answer = found(name, field)
    assert answer.value in values
    assert answer.status == "read" or (answer.status == "determined" and answer.margin is not None and answer.margin > 1 and answer.regime)


def test_every_field_of_the_policy_is_accounted_for_once() -> None:
    for name in ("step", "naive-softplus"):
        policy, names = inferred(name).claims.policy, [f.field for f in inferred(name).findings]
        owed = ["gate", "ring_dt", "decay", "softplus", "softplus.identity_from", "exponential", "ftz", "state.rounding", "state.overflow",
                "output.rounding", "output.overflow"]
        owed += [f"paths.{path}.{part}" for path in policy.paths for part in vars(policy.paths[path]) if part not in ("folds", "predict")]
        assert sorted(set(owed) - set(names)) == [] and len(names) == len(set(names))
        assert {f.status for f in inferred(name).findings} <= {"determined", "bounded", "not observable", "read"}


def test_no_policy_explains_a_kernel_that_loses_a_token() -> None:
    worst = inferred("token-lost-at-flush").unexplained[0]
    assert worst.ratio > 1 and worst.regime


def test_what_a_kernel_declares_is_not_looked_at() -> None:
    kernel: HostKernel = RIGHT["step"]
    boasting = replace(kernel, claims=replace(kernel.claims, policy=start(kernel.claims)))
    told: list[str] = []
    answer = infer(InProcess(boasting), TABLE, regimes=CONFIRMED, told=told.append)
    assert answer.findings == inferred("step").findings and told
