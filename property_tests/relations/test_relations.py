"""Every relation holds for right kernels over random lives, and each sees the kernel that breaks it."""

from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Restore
from replaycheck.cases.schedule import mixed, plain
from replaycheck.contract.claims import Formats
from replaycheck.faults.base import REPLAY_CLAIMS, STEP_CLAIMS
from replaycheck.faults.host import HostKernel, ReplaySession, StepSession
from replaycheck.judge.relations import determinism, exact, isolation, movement, poison, split
from replaycheck.play.source import InProcess
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.variant import Mamba2Variant

CHECKS = [poison, isolation, movement, split, determinism, exact]
BOTH = Forward(((0, 1), (1, 1)))


def _case(schedule: Any = None, **fields: Any) -> Case:
    return Case(name="relations", **{"heads": 2, "head_dim": 4, "state_dim": 8, "capacity": 3, "slots": 3,
                                     "formats": Formats(activation="fp32", output="fp32"),
                                     "schedule": mixed(5, slots=3, forwards=10) if schedule is None else schedule, **fields})


def _replay(guarantees: tuple[str, ...] | None = None, **methods: Any) -> InProcess:
    """The right replay kernel with these methods in the place of its own."""
    claims = REPLAY_CLAIMS if guarantees is None else replace(REPLAY_CLAIMS, guarantees=guarantees)
    return InProcess(HostKernel(claims=claims, session=type("Session", (ReplaySession,), methods)))


def _broken(check: ModuleType, source: InProcess, case: Case) -> Measurement:
    """The failing measurement, which must be there."""
    failed = [m for m in check.check(source, case) if not m.passed]
    assert failed, f"{check.__name__} sees nothing"
    return failed[0]


# -- right kernels

@examples(6)
@given(seed=st.integers(0, 1000), capacity=st.integers(1, 5), layers=st.integers(1, 2), state=st.sampled_from(["fp32", "bf16"]),
       softplus=st.booleans())
def test_a_right_replay_kernel_keeps_every_relation(seed: int, capacity: int, layers: int, state: str, softplus: bool) -> None:
    case = _case(mixed(seed, slots=3, forwards=8, idle=True), capacity=capacity, layers=layers, seed=seed, formats=Formats(state=state),
                 variant=Mamba2Variant(softplus=softplus, gated=bool(seed % 2)))
    source = _replay()
    found = [m for check in CHECKS for m in check.check(source, case)]
    assert all(m.passed and m.facts["compared"] > 0 for m in found)
    assert {"poison", "movement", "determinism", "exact"} <= {m.guarantee for m in found}


def test_a_right_step_kernel_keeps_every_relation() -> None:
    source = InProcess(HostKernel(claims=STEP_CLAIMS, session=StepSession))
    found = [m for check in CHECKS for m in check.check(source, _case(capacity=1))]
    assert all(m.passed for m in found)
    assert {m.guarantee for m in found} == {"poison", "isolation", "movement", "split", "determinism", "exact"}


@pytest.mark.parametrize("check", [isolation, movement])
def test_what_is_not_claimed_is_not_compared(check: ModuleType) -> None:
    assert check.check(_replay(guarantees=()), _case()) == []


# -- poison

def _reads_a_free_slot(self: Any, layer: int, slot: int, step: int, token: Any) -> Any:
    return ReplaySession.token(self, layer, slot, step, token) + 1e-30 * self.states[layer][2, 0, 0, 0]


def test_finite_poison_sees_a_kernel_that_reads_a_free_slot() -> None:
    found = _broken(poison, _replay(token=_reads_a_free_slot), _case(plain(1, 4)))
    assert (found.guarantee, found.place["request"], found.place["what"], found.place["token"]) == ("poison", 0, "output", 0)
    assert found.got != found.exact and "under another finite poison" in found.diagnosis
    assert [play["poison"] for play in found.facts["plays"]] == ["finite", "finite-2"]


def _masks_by_product(self: Any, layer: int, slot: int, step: int, token: Any) -> Any:
    return ReplaySession.token(self, layer, slot, step, token) + 0 * self.states[layer][2, 0, 0, 0]


def test_nan_poison_sees_a_mask_by_multiplication_and_only_where_it_is_claimed() -> None:
    claimed, unclaimed = (_replay(guarantees=g, token=_masks_by_product) for g in (("nan_poison",), ()))
    assert "under NaN poison" in _broken(poison, claimed, _case(plain(1, 4))).diagnosis
    assert all(m.passed for m in poison.check(unclaimed, _case(plain(1, 4))))


def test_poison_sees_an_uninitialised_state_on_a_zero_start() -> None:
    def admit(self: Any, slot: int, states: Any) -> None:
        if states is None:
            self.reset_cursor(slot)
        else:
            ReplaySession.admit(self, slot, states)

    found = _broken(poison, _replay(admit=admit), _case(plain(1, 4, start="zero")))
    assert found.place["token"] == 0


# -- isolation and movement

def test_isolation_sees_a_kernel_whose_sums_depend_on_the_number_of_rows() -> None:
    def token(self: Any, layer: int, slot: int, step: int, token: Any) -> Any:
        return ReplaySession.token(self, layer, slot, step, token) * (1 + 2.0**-23 * (len(self.rows) > 1))

    found = _broken(isolation, _replay(token=token), _case((Admit(0, 0), Admit(1, 1), *[BOTH] * 4)))
    assert found.diagnosis.endswith("differ between a request alone and in its batch") and found.facts["requests"] == [0, 1]
    assert [play["name"] for play in found.facts["plays"]] == ["relations, alone", "relations"]


def test_isolation_compares_nothing_where_a_request_is_alone_anyway() -> None:
    assert isolation.check(_replay(), _case(plain(1, 4))) == []


def test_movement_sees_a_kernel_that_takes_the_gates_of_the_row_with_the_number_of_the_slot() -> None:
    def run(self: Any, layer: int, tokens: Any, out: Any) -> None:
        order = [slot for slot, _ in self.rows]
        dt = tokens.dt.clone()
        for row, slot in enumerate(order):
            dt[row] = tokens.dt[slot % len(order)]
        ReplaySession.run(self, layer, type(tokens)(x=tokens.x, dt=dt, B=tokens.B, C=tokens.C, z=tokens.z), out)

    found = _broken(movement, _replay(run=run), _case((Admit(0, 0), Admit(1, 1), *[BOTH] * 4)))
    assert "rows in another order and requests in other slots" in found.diagnosis


def test_permuted_rows_and_slots_all_move_and_pads_stay_pads() -> None:
    case = _case()
    other = movement.permuted(case)
    for one, two in zip(case.schedule, other.schedule, strict=True):
        if isinstance(one, Forward) and isinstance(two, Forward):
            assert sum(slot == PAD for slot, _ in one.rows) == sum(slot == PAD for slot, _ in two.rows)
        if isinstance(one, Admit) and isinstance(two, Admit):
            assert one.slot != two.slot and one.request == two.request


def test_movement_sees_a_copy_that_forgets_the_cursor_even_where_the_case_copies_nothing() -> None:
    def copy(self: Any, src: int, dst: int) -> None:
        ReplaySession.copy(self, src, dst)
        self.filled[dst] = 0

    case = _case(plain(1, 8))
    assert all(m.passed for m in movement.check(_replay(), case))
    assert "copied to another slot halfway" in _broken(movement, _replay(copy=copy), case).diagnosis


def test_moved_requests_are_copied_inside_their_ring() -> None:
    case, requests = movement.moved(_case((*plain(2, 6), Forward(((1, 1), (PAD, 1), (0, 1)))), capacity=3))
    copies = [step for step, op in enumerate(case.schedule) if isinstance(op, Copy)]
    assert requests == {0: 2, 1: 3} and case.slots == 4
    assert sum(isinstance(op, Forward) for op in case.schedule[:copies[0]]) % 3 != 0


# -- split

def test_split_sees_a_kernel_that_keeps_something_across_admission() -> None:
    def reset_cursor(self: Any, slot: int) -> None:
        ReplaySession.reset_cursor(self, slot)
        self.admitted = getattr(self, "admitted", 0) + 1

    def token(self: Any, layer: int, slot: int, step: int, token: Any) -> Any:
        return ReplaySession.token(self, layer, slot, step, token) + 2.0**-20 * self.admitted

    found = _broken(split, _replay(reset_cursor=reset_cursor, token=token), _case(plain(1, 9)))
    assert "released and restored at a publication" in found.diagnosis and found.place["token"] == 6


def test_split_restores_only_where_everything_is_published() -> None:
    source = _replay()
    derived = split.restored(source.play(_case(plain(2, 9))))
    assert derived is not None
    places = [step for step, op in enumerate(derived.schedule) if isinstance(op, Restore)]
    assert len(places) == 2 and sum(isinstance(op, Forward) for op in derived.schedule[:places[0]]) == 6
    assert split.restored(source.play(_case(plain(1, 3)))) is None


def test_phase_invariance_is_held_where_it_is_claimed() -> None:
    restored, elsewhere = split.check(_replay(guarantees=("phase_invariant",)), _case(plain(1, 9)))
    assert elsewhere.facts["relation"] == "at capacity 2 instead of 3"
    assert restored.passed and not elsewhere.passed       # the base sums weighted rows, so its bits do depend on where they stand


# -- determinism and exact

def test_determinism_sees_sums_in_random_order() -> None:
    generator = torch.Generator().manual_seed(1)

    def token(self: Any, layer: int, slot: int, step: int, token: Any) -> Any:
        return ReplaySession.token(self, layer, slot, step, token) * (1 + 2.0**-22 * torch.rand(1, generator=generator))

    assert "in a second session" in _broken(determinism, _replay(token=token), _case(plain(1, 4))).diagnosis


def test_exact_sees_one_wrong_bit_and_names_it() -> None:
    def token(self: Any, layer: int, slot: int, step: int, token: Any) -> Any:
        y = ReplaySession.token(self, layer, slot, step, token)
        y[1, 2] += 2.0**-15
        return y

    found = _broken(exact, _replay(token=token), _case(plain(1, 4)))
    assert (found.place["what"], found.place["head"], found.place["row"], found.value) == ("output", 1, 2, 4)
    assert found.got is not None and found.exact is not None and found.got - found.exact == 2.0**-15 and found.exact == int(found.exact)


def test_exact_sees_a_decay_that_is_not_one() -> None:
    def store(self: Any, layer: int, slot: int, state: Any) -> None:
        ReplaySession.store(self, layer, slot, state * (1 - 2.0**-24))

    assert _broken(exact, _replay(store=store), _case(plain(1, 3))).place["what"] == "state"


def test_exact_answers_are_those_of_rational_arithmetic() -> None:
    case = _case(plain(1, 3), regime="representable", groups=2)
    outputs, states = exact.answer(case, 0, 0)
    layer, tokens, start = case.layer(0), case.tokens(0, 0), case.start(0, 0)
    assert layer.D is not None and layer.dt_bias is not None and start is not None
    S = [[Fraction(float(v)) for v in row] for row in start[1]]
    for t in range(3):
        x, B, C = ([Fraction(float(v)) for v in values] for values in (tokens.x[t, 1], tokens.B[t, 1], tokens.C[t, 1]))
        dt = Fraction(float(tokens.dt[t, 1])) + Fraction(float(layer.dt_bias[1]))
        S = [[s + dt * x[p] * B[n] for n, s in enumerate(row)] for p, row in enumerate(S)]
        y = [sum((s * C[n] for n, s in enumerate(row)), Fraction(float(layer.D[1])) * x[p]) for p, row in enumerate(S)]
        assert [Fraction(float(v)) for v in outputs[t, 1]] == y
        assert [[Fraction(float(v)) for v in row] for row in states[t + 1][1]] == S


def test_long_schedules_are_cut_to_what_stays_exact() -> None:
    drawn = exact.representable(_case(plain(1, 400), state_dim=4, variant=Mamba2Variant(gated=True)))
    assert drawn is not None and drawn.regime == "representable" and not drawn.variant.gated and 0 < drawn.lengths[0] < 400


# -- what every failing measurement says

@pytest.mark.parametrize("check", [poison, exact])
def test_a_failing_relation_can_be_replayed(check: ModuleType) -> None:
    found = _broken(check, _replay(token=_reads_a_free_slot), _case(plain(1, 4)))
    assert Case.from_json(found.facts["other_case"]).id == found.facts["plays"][-1]["case"]
    assert found.derivation and found.unit == "elements" and found.budget == 0
