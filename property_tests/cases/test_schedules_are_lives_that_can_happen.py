"""Schedules: builders make valid lives with every event, bad ones are named, JSON is faithful."""

from __future__ import annotations

import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.cases.events import PAD, Admit, Copy, Forward, Op, Release, Restore, Schedule, from_json, to_json
from replaycheck.cases.schedule import lengths, mixed, plain, roots, validate

lives = st.builds(mixed, st.integers(0, 10**6), slots=st.integers(2, 6), forwards=st.integers(1, 24), idle=st.booleans())


def live_at_the_end(schedule: Schedule) -> set[int]:
    """The slots that hold a request after the last event."""
    live: set[int] = set()
    for op in schedule:
        if isinstance(op, Admit):
            live.add(op.slot)
        elif isinstance(op, Copy):
            live.add(op.dst)
        elif isinstance(op, Release):
            live.remove(op.slot)
    return live


@examples(60)
@given(seed=st.integers(0, 10**6), slots=st.integers(2, 6), forwards=st.integers(1, 24), idle=st.booleans())
def test_a_mixed_life_can_happen_and_keeps_its_promises(seed: int, slots: int, forwards: int, idle: bool) -> None:
    life = mixed(seed, slots=slots, forwards=forwards, idle=idle)
    assert life == mixed(seed, slots=slots, forwards=forwards, idle=idle)
    validate(life, slots)
    for op in life:
        if isinstance(op, Forward):
            assert any(slot != PAD for slot, _ in op.rows)
            assert all(length == 1 or (idle and length == 0 and slot != PAD) for slot, length in op.rows)
    assert {0, slots - 1} <= live_at_the_end(life)
    assert sum(isinstance(op, Forward) for op in life) == forwards
    assert {Admit, Copy, Release} <= {type(op) for op in life}
    filled = [op.dst if isinstance(op, Copy) else op.slot for op in life if isinstance(op, Admit | Copy)]
    assert len(set(filled)) < len(filled), "no slot was used twice"
    assert {op.start for op in life if isinstance(op, Admit)} == {"zero", "random"}


def test_mixed_lives_put_pads_everywhere_and_copy_at_every_ring_position() -> None:
    first = last = inside = 0
    at: set[int] = set()
    for seed in range(60):
        life = mixed(seed, forwards=16)
        for k, op in enumerate(life):
            if isinstance(op, Forward):
                pads = [slot == PAD for slot, _ in op.rows]
                first, last, inside = first + pads[0], last + pads[-1], inside + any(pads[1:-1])
            if isinstance(op, Copy):
                at.add(lengths(life[:k + 1])[op.request] % 4)
    assert min(first, last, inside) >= 60 and at == {0, 1, 2, 3}


@pytest.mark.parametrize("slots", [3, 4])
def test_neighbours_stand_at_different_positions_in_every_life(slots: int) -> None:
    for seed in range(60):
        at: dict[int, int] = {}
        apart = False
        for op in mixed(seed, slots=slots, forwards=12):
            if isinstance(op, Admit):
                at[op.slot] = 0
            elif isinstance(op, Copy):
                at[op.dst] = at[op.src]
            elif isinstance(op, Release):
                del at[op.slot]
            elif isinstance(op, Forward):
                at.update({slot: at[slot] + length for slot, length in op.rows if slot != PAD})
                apart |= any(slot + 1 in at and 0 < at[slot] != at[slot + 1] > 0 for slot in at)
        assert apart, seed


def test_rows_change_order_between_forwards() -> None:
    orders = {tuple(s for s, _ in op.rows if s != PAD) for op in mixed(5, forwards=24) if isinstance(op, Forward)}
    assert (0, 3) in orders and (3, 0) in orders


@examples(30)
@given(requests=st.integers(1, 4), tokens=st.integers(0, 9), start=st.sampled_from(["zero", "random"]))
def test_a_plain_life_gives_every_request_its_tokens(requests: int, tokens: int, start: str) -> None:
    life = plain(requests, tokens, start=start)
    validate(life, requests)
    assert lengths(life) == dict.fromkeys(range(requests), tokens)
    assert all(root.start == start and root.request == request for request, root in roots(life).items())


def test_a_copy_has_the_root_and_position_of_its_source() -> None:
    first = (Admit(0, 4, "zero"), Forward(((0, 2),)), Copy(0, 1, 7), Release(0))
    life = (*first, Forward(((1, 3), (PAD, 1))), Copy(1, 0, 9), Forward(((0, 1),)))
    validate(life, 2)
    assert lengths(life) == {4: 2, 7: 5, 9: 6}
    assert {root.request for root in roots(life).values()} == {4}


@examples(40)
@given(life=lives)
def test_a_schedule_goes_through_json_unchanged(life: Schedule) -> None:
    extended = (*life, Restore(0))
    assert from_json(to_json(extended)) == extended


WRONG: list[tuple[tuple[Op, ...], str]] = [
    ((Admit(2, 0),), "slot must be in 0..1, got 2"),
    ((Admit(PAD, 0),), "slot must be in 0..1, got -1"),
    ((Admit(0, 0), Admit(0, 1)), "slot 0 is not free"),
    ((Admit(0, 0), Admit(1, 0)), "request must be a fresh number of at least 0, got 0"),
    ((Admit(0, -1),), "got -1"),
    ((Admit(0, 0, "ones"),), "start must be one of zero, random, prefill, got 'ones'"),
    ((Forward(((0, 1),)),), "slot 0 is not live"),
    ((Forward(()),), "at least one row"),
    ((Admit(0, 0), Forward(((0, 1), (0, 1)))), "names a slot twice"),
    ((Admit(0, 0), Forward(((0, -1),))), "row length must be at least 0, got -1"),
    ((Forward(((PAD, -2),)),), "got -2"),
    ((Copy(0, 1, 0),), "slot 0 is not live"),
    ((Admit(0, 0), Copy(0, 0, 1)), "slot 0 is not free"),
    ((Admit(0, 0), Copy(0, 1, 0)), "request must be a fresh number"),
    ((Admit(0, 0), Copy(0, 5, 1)), "got 5"),
    ((Release(1),), "slot 1 is not live"),
    ((Admit(0, 0), Release(0), Release(0)), "slot 0 is not live"),
    ((Restore(0),), "slot 0 is not live"),
]


@pytest.mark.parametrize("life,message", WRONG)
def test_a_life_that_cannot_happen_is_refused_and_its_step_named(life: tuple[Op, ...], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        validate(life, 2)
    assert message in str(caught.value) and f"schedule step {len(life) - 1}," in str(caught.value)


@pytest.mark.parametrize("data,message", [
    ({}, "list of events, got dict"), ([3], "begins with one of admit"), ([[]], "got []"), ([["jump", 1]], "'jump'"),
    ([["admit", 0, 0]], "admit takes 3 values, got 2"), ([["admit", 0, "a", "zero"]], "takes integers, got 'a'"),
    ([["release", True]], "got True"), ([["copy", 0, 1, 1.5]], "got 1.5"), ([["forward", [[0]]]], "rows must be"),
    ([["forward", 3]], "rows must be"),
    ([["release", 0], ["forward", [[0, None]]]], "step 1"),
])
def test_schedule_json_that_is_wrong_is_refused(data: object, message: str) -> None:
    with pytest.raises(ValueError, match="schedule") as caught:
        from_json(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("build", [lambda: mixed(0, slots=1), lambda: mixed(0, forwards=0), lambda: plain(0, 1), lambda: plain(1, -1)])
def test_builders_refuse_what_they_cannot_build(build: object) -> None:
    with pytest.raises(ValueError, match="schedule needs"):
        build()  # type: ignore[operator]
