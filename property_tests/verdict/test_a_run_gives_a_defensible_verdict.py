"""Whole runs on host kernels: right ones pass, wrong ones fail with the guarantee named on a small case, thin ones are not proven."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.errors import KernelHang
from replaycheck.faults.base import REPLAY, STEP
from replaycheck.faults.faults import FAULTS
from replaycheck.play.source import InProcess
from replaycheck.verdict.checks import CHECKS, select
from replaycheck.verdict.measure import measure
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.plan import Job, Plan
from replaycheck.verdict.results import Run
from replaycheck.verdict.run import run_case, run_suite
from replaycheck.verdict.shrink import shrink, size
from replaycheck.verdict.suites import RELATIONS, SUITES, Line, Suite
from replaycheck.verdict.tables import table_of

TABLE = table_of("cpu")
SMALL = Suite(name="small", purpose="for tests", seconds=60.0, shrink_seconds=3.0, lines=(
    Line(checks=("windows",), regimes=("slow",), capacities=(1, 2, 3, 4), each_capacity=True, requests=1),
    Line(checks=("windows", "exact"), regimes=("representable",), requests=1),
    Line(checks=("windows", *RELATIONS), regimes=("trained-like",), schedule="mixed", stack=2, capacities=(3,), requests=3, widest=True),
))


def run(kernel: Any, suite: Suite = SMALL, **options: Any) -> Run:
    return run_suite([InProcess(kernel), InProcess(kernel)], suite, kernel=kernel.claims.name, table=TABLE, **options)


@pytest.mark.parametrize("kernel", [STEP, REPLAY], ids=["step", "replay"])
def test_a_right_kernel_passes_and_the_worst_element_is_confirmed(kernel: Any) -> None:
    done = run(kernel)
    assert (done.verdict.status, done.verdict.reasons, done.failures) == ("pass", (), ())
    assert done.verdict.headline == f"pass as {kernel.claims.kind} kernel"
    assert "confirmed to 50 digits by" in done.confirmation
    assert {b.quantity.split(",")[0] for b in done.bits} == {"gates", "outputs", "state"}
    assert (done.coverage is None) == (kernel.claims.kind == "step")
    assert any(line.startswith("compilation") for line in done.not_covered), "a host kernel launches nothing that could be compiled"


@pytest.mark.parametrize("name", ["token-lost-at-flush", "neighbour-written", "decay-of-one-is-less", "copy-restarts-ring"])
def test_a_wrong_kernel_fails_and_every_case_it_is_given_back_still_fails(name: str) -> None:
    fault = FAULTS[name]
    done = run(fault.kernel)
    assert done.verdict.status == "fail"
    assert fault.guarantee in {f.measurement.guarantee for f in done.failures}
    for failure in done.failures:
        assert failure.case is not None
        again = run_case(InProcess(fault.kernel), Job(case=failure.case, checks=tuple(CHECKS)), kernel=name, table=TABLE)
        assert failure.measurement.guarantee in {f.measurement.guarantee for f in again.failures}


def drawn(claims: Claims) -> list[Case]:
    """The cases of the small suite, largest first."""
    return sorted((job.case for job in Plan(suite=SMALL, claims=claims).jobs()), key=size, reverse=True)


class Raising:
    """Opens, and raises where it should compute."""

    def __init__(self) -> None:
        self.claims = replace(STEP.claims, name="raising")
        self.opened = 0

    def open(self, layers: Any, **arguments: Any) -> Any:
        self.opened += 1
        session = STEP.open(layers, **arguments)

        def fail(layer: int, tokens: Any, out: Any) -> None:
            raise IndexError("no such row 7")

        session.run = fail
        return session


def test_a_kernel_that_raises_is_an_error_and_is_not_asked_for_ever() -> None:
    kernel = Raising()
    done = run(kernel, replace(SMALL, lines=(replace(SMALL.lines[0], draws=20), *SMALL.lines[1:])))
    assert (done.verdict.status, done.verdict.exit_code) == ("error", 4)
    assert "no such row 7" in done.verdict.reasons[0]
    assert all("nothing was measured" not in reason for reason in done.verdict.reasons)
    assert done.failures[0].status == "error" and done.failures[0].case is not None
    assert "the suite was left after 3 errors or a hang" in done.not_covered
    assert kernel.opened < 20


class Hanging:
    """A source of plays whose kernel never answers."""

    claims = STEP.claims
    asked = 0

    def play(self, case: Case, *, poison: str = "finite", take: int = 0) -> Any:
        self.asked += 1
        raise KernelHang("kernel hung: no answer in 60 s")


def test_a_kernel_that_hangs_is_not_asked_twice() -> None:
    source = Hanging()
    done = run_suite([source], replace(SMALL, shrink_seconds=0.0), kernel="hanging", table=table_of("cpu"))
    assert done.verdict.status == "error" and source.asked == 1


def test_a_run_without_time_is_not_proven() -> None:
    done = run(REPLAY, budget=1e-9)
    assert (done.verdict.status, done.verdict.exit_code) == ("not proven", 3)
    assert any(reason.startswith("coverage: 0 of 20 cells") for reason in done.verdict.reasons)
    assert "nothing was measured for outputs" in done.verdict.reasons
    assert "time was out before the suite ended" in done.not_covered


def test_a_thin_suite_is_not_proven_however_well_it_measures() -> None:
    thin = replace(SMALL, lines=(replace(SMALL.lines[0], capacities=(1, 3, 4)), *SMALL.lines[1:]))
    done = run(REPLAY, thin)
    assert done.verdict.status == "not proven"
    assert done.coverage is not None and {cell.capacity for cell in done.coverage.missing} == {2}


def test_part_of_a_suite_owes_only_itself() -> None:
    done = run(REPLAY, selection=select(["determinism"]))
    assert done.verdict.status == "pass"
    assert set(done.tally.guarantees) == {"determinism"}
    assert done.what == "suite small in part"


def test_an_endless_suite_runs_until_its_time_is_out_and_never_draws_a_case_twice() -> None:
    ids: list[str] = []

    def note(done: int, job: Job, measured: object) -> None:
        ids.append(job.case.id)

    done = run(STEP, replace(SMALL, lines=SMALL.lines[:2], endless=True), budget=2.0, progress=note)
    assert done.verdict.status == "pass" and len(ids) > 2
    assert len(set(ids)) == len(ids)


def test_an_endless_suite_needs_a_budget() -> None:
    with pytest.raises(ValueError, match="suite deep runs until its time is out: give it a budget"):
        run(STEP, SUITES["deep"])


def test_an_interrupted_run_reports_what_it_did() -> None:
    def interrupt(done: int, job: Job, measured: object) -> None:
        if done == 2:
            _thread.interrupt_main()

    done = run(STEP, replace(SMALL, endless=True, seconds=60.0), progress=interrupt)
    assert done.interrupted and done.verdict.status == "not proven"
    assert done.tally.total > 0
    assert any(reason.startswith("interrupted after") for reason in done.verdict.reasons)


def test_a_case_with_nothing_to_measure_proves_nothing() -> None:
    case = Case(name="empty", heads=2, head_dim=16, state_dim=16, schedule=plain(1, 2), formats=Formats(activation="fp32", output="fp32"))
    done = run_case(InProcess(STEP), Job(case=case, checks=("compile",)), kernel="step", table=TABLE)
    assert (done.verdict.status, done.verdict.reasons) == ("not proven", ("nothing was measured",))


def _fails_from(tokens: int, heads: int) -> Callable[[Case], Measurement | None]:
    """A guarantee that breaks wherever a request is at least so long and a layer has so many heads."""
    def attempt(case: Case) -> Measurement | None:
        long = max(case.lengths.values()) >= tokens and case.heads >= heads
        return Measurement(guarantee="outputs", value=2.0, budget=1.0, case=case.id) if long else None
    return attempt


@pytest.mark.parametrize(("tokens", "heads"), [(1, 1), (5, 2), (6, 1)])
def test_shrinking_ends_at_a_case_that_cannot_lose_a_token(tokens: int, heads: int) -> None:
    case = drawn(REPLAY.claims)[0]
    attempt = _fails_from(tokens, heads)
    first = attempt(case)
    assert first is not None
    small, measurement = shrink(case, first, REPLAY.claims, attempt, seconds=20.0)
    assert measurement.case == small.id and attempt(small) is not None
    assert max(small.lengths.values()) == tokens and len(small.roots) == 1
    assert small.heads == max(heads, 1) or small.heads <= 2
    assert size(small) < size(case)


def test_a_failing_check_does_not_hide_what_others_measured() -> None:
    case = FAULTS["token-lost-at-flush"].case
    found = measure(InProcess(FAULTS["token-lost-at-flush"].kernel), Job(case=case, checks=tuple(CHECKS)), TABLE).measurements
    assert {"outputs", "state", "contract", "write-set", "determinism"} <= {m.guarantee for m in found}
    assert all(m.case and m.regime in (case.regime, "representable") for m in found)
