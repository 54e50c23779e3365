"""Plans: the cases a suite draws for a kernel stay within its claims, are the same for the same seed, and never come to nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.cases.regimes import REGIMES
from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import UsageError
from replaycheck.play.supported import check_supported
from replaycheck.verdict.checks import CHECKS, GUARANTEES, Selection, select
from replaycheck.verdict.coverage import FLOOR_CAPACITY, Coverage, owed_cells
from replaycheck.verdict.plan import Plan, builds, variants
from replaycheck.verdict.run import owed
from replaycheck.verdict.suites import ANALOGUE, SUITES, pairs_of
from replaycheck_reference.policy import Path, Policy

_FORMATS = ("fp32", "fp16", "bf16")
_POLICIES = {"step": Policy(paths={"step": Path()}), "replay": Policy(paths={"output": Path(), "flush": Path()})}


def some(values: tuple[object, ...], *, least: int = 0) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(st.sampled_from(values), unique=True, min_size=least).map(tuple)


@st.composite
def claims(draw: st.DrawFn) -> Claims:
    kind = draw(st.sampled_from(("step", "replay")))
    low = draw(st.integers(1, 6))
    return Claims(
        name="drawn", kind=kind, policy=_POLICIES[kind], states=draw(some(_FORMATS, least=1)), activations=draw(some(_FORMATS, least=1)),
        outputs=draw(some(_FORMATS)), head_dims=draw(some((16, 32, 64, 80))), state_dims=draw(some((16, 64, 128))),
        capacities=(low, low + draw(st.integers(0, 12))) if kind == "replay" else (1, 1),
        features=draw(some(("bias", "skip", "gated", "groups", "no_softplus", "A_log"))),
        guarantees=draw(some(("batch_invariant", "nan_poison", "phase_invariant"))),
    )


@given(claims=claims(), suite=st.sampled_from(sorted(SUITES)), seed=st.integers(0, 9))
@examples(40)
def test_every_case_is_one_the_kernel_claims(claims: Claims, suite: str, seed: int) -> None:
    jobs = list(islice(Plan(suite=SUITES[suite], claims=claims, seed=seed).jobs(), 120))
    assert jobs
    for job in jobs:
        check_supported(claims, job.case)
        assert set(job.checks) <= set(CHECKS)


@given(claims=claims(), seed=st.integers(0, 9))
@examples(25)
def test_every_regime_and_every_owed_capacity_is_drawn(claims: Claims, seed: int) -> None:
    jobs = list(Plan(suite=SUITES["quick"], claims=claims, seed=seed).jobs())
    assert {job.case.regime for job in jobs} == set(REGIMES)
    assert {cell.capacity for cell in owed_cells(claims)} <= {job.case.capacity for job in jobs}


@given(claims=claims(), seed=st.integers(0, 9))
@examples(20)
def test_the_seed_alone_says_which_cases_are_drawn(claims: Claims, seed: int) -> None:
    def ids(which: int) -> list[str]:
        return [job.case.id for job in Plan(suite=SUITES["quick"], claims=claims, seed=which).jobs()]

    assert ids(seed) == ids(seed)
    assert not set(ids(seed)) & set(ids(seed + 1))


@given(claims=claims())
@examples(20)
def test_a_longer_suite_draws_every_form_that_is_claimed(claims: Claims) -> None:
    cases = [job.case for job in Plan(suite=SUITES["merge"], claims=claims).jobs()]
    assert {case.variant for case in cases} == set(variants(claims))
    assert {case.formats for case in cases} == set(builds(claims))


def test_a_step_kernel_has_no_ring_and_owes_no_cells() -> None:
    step = Claims(name="step", kind="step")
    assert owed_cells(step) == frozenset()
    assert {job.case.capacity for job in Plan(suite=SUITES["merge"], claims=step).jobs()} == {1}


@given(claims=claims().filter(lambda c: c.kind == "replay" and c.capacities[0] <= FLOOR_CAPACITY), data=st.data())
@examples(30)
def test_one_missing_cell_is_not_proven(claims: Claims, data: st.DataObject) -> None:
    cells = owed_cells(claims)
    assert Coverage(owed=cells, seen=cells).gaps == ()
    lost = data.draw(st.sampled_from(sorted(cells)))
    assert Coverage(owed=cells, seen=cells - {lost}).missing == (lost,)
    assert f"capacity {lost.capacity}, position {lost.position}, age {lost.age}" in Coverage(owed=cells, seen=cells - {lost}).gaps[0]


def test_folds_that_stand_where_the_claims_do_not_put_them_are_told() -> None:
    owed = owed_cells(Claims(name="replay", kind="replay", policy=_POLICIES["replay"], capacities=(2, 2)))
    late = frozenset(replace(cell, position=cell.position + 1) if cell.path == "flush" else cell for cell in owed)
    assert "at capacity 2 steps that fold stood at position 2 of their window, not at 1" in Coverage(owed=owed, seen=late).gaps[0]


def test_outputs_that_follow_the_activations_are_built_with_no_other() -> None:
    claims = Claims(name="step", states=("fp32", "bf16"), activations=("bf16", "fp32"), outputs=())
    assert {(f.state, f.activation, f.output) for f in builds(claims)} == {(s, a, a) for s in claims.states for a in claims.activations}


@pytest.mark.parametrize("name", ["states", "activations"])
def test_claims_without_a_format_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"claims.{name} must name at least one format, got \(\)"):
        Claims(name="step", **{name: ()})


@pytest.mark.parametrize("name", [*CHECKS, *GUARANTEES, *REGIMES])
def test_a_selection_keeps_what_it_names(name: str) -> None:
    plan = Plan(suite=SUITES["merge"], claims=Claims(name="step", kind="step", guarantees=("batch_invariant",)), selection=select([name]))
    jobs = list(plan.jobs())
    assert jobs
    if name in REGIMES:
        assert {job.case.regime for job in jobs} == {name}
    else:
        check = name if name in CHECKS else next(c.name for c in CHECKS.values() if name in c.guarantees)
        assert {checks for job in jobs for checks in job.checks} == {check}
        assert set(owed(plan)) <= set(CHECKS[check].guarantees)


def test_an_unknown_selection_lists_the_known_names() -> None:
    with pytest.raises(UsageError, match=r"--only 'poisin' is no check, guarantee or regime; known are .*poison.*trained-like"):
        select(["poisin"])


def test_every_suite_measures_every_check_and_regime() -> None:
    for suite in SUITES.values():
        assert {check for line in suite.lines for check in line.checks} | {"play"} == set(CHECKS)
        assert {regime for line in suite.lines if not line.recurrences for regime in line.regimes} == set(REGIMES)
        assert {guarantee for _, guarantee in pairs_of(suite)} == set(GUARANTEES)
    assert {*ANALOGUE, "representable"} == set(REGIMES)
    assert Selection().whole
