"""Speculative schedules: what is accepted, what is drawn for drafts, and how a case file says it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Release
from replaycheck.cases.schedule import lengths, plain, speculative, validate


def made(schedule: Any, **changed: Any) -> Case:
    given = {"capacity": 4, "window": 3, "slots": 3, "seed": 1, **changed}
    return Case(name="", heads=2, head_dim=16, state_dim=16, groups=1, schedule=tuple(schedule), **given)


@given(st.integers(1, 4), st.integers(0, 4), st.integers(2, 4), st.integers(1, 20), st.integers(0, 1 << 30))
@examples(30)
def test_every_drawn_life_can_happen_and_holds_only_what_was_accepted(window: int, more: int, slots: int, forwards: int, seed: int) -> None:
    schedule = speculative(seed, window=window, capacity=window + more, slots=slots, forwards=forwards)
    validate(schedule, slots)
    live: dict[int, int] = {}
    held: dict[int, int] = {}
    for op in schedule:
        if isinstance(op, Admit):
            live[op.slot], held[op.request] = op.request, 0
        elif isinstance(op, Copy):
            live[op.dst], held[op.request] = op.request, held[live[op.src]]
        elif isinstance(op, Release):
            del live[op.slot]
        elif isinstance(op, Forward):
            assert op.counts is not None
            for (slot, length), count in zip(op.rows, op.counts, strict=True):
                assert 0 <= count <= length <= window
                if slot != PAD:
                    held[live[slot]] += count
    assert held == lengths(schedule)
    assert {0, slots - 1} <= set(live), "the ends of the pool are live"


def test_a_slot_that_lives_long_has_rows_of_every_length_kept_to_every_count_at_every_place_of_the_ring() -> None:
    seen, used = set(), 0
    for op in speculative(7, window=2, capacity=4, slots=2, forwards=120):
        if isinstance(op, Forward):
            for slot, length, count in op.accepted():
                if slot == 0 and length:
                    seen.add((used, length, count))
                    used = count if used + 2 > 4 else used + count
    assert {(length, count) for _, length, count in seen} == {(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    assert {place for place, _, _ in seen} == {0, 1, 2, 3, 4}


def test_no_draft_is_a_token_that_its_request_has_and_every_one_is_another() -> None:
    case = made((Admit(0, 0), Forward(((0, 3),), (1,)), Forward(((0, 2),), (0,)), Forward(((0, 1),), (1,))))
    drafts = torch.cat([case.draft_tokens(0, 1, 0, 2, 0).x, case.draft_tokens(0, 2, 0, 2, 0).x])
    every = torch.cat([case.tokens(0, 0).x, drafts]).flatten(1)
    assert len(case.tokens(0, 0)) == 2 and len(every.unique(dim=0)) == 6


def test_a_case_file_keeps_window_counts_and_drafts_and_a_plain_one_has_none() -> None:
    case = made(speculative(3, window=3, capacity=4, slots=3, forwards=5), drafts="nan")
    told = case.to_json()
    assert told["window"] == 3 and told["drafts"] == "nan" and Case.from_json(told) == case
    assert not {"window", "drafts"} & set(made(plain(1, 2), window=1).to_json())
    assert made(plain(1, 2), window=1).id != made(plain(1, 2)).id


@pytest.mark.parametrize(("schedule", "changed", "message"), [
    ((Admit(0, 0), Forward(((0, 2),), (3,))), {}, r"a row of 2 token\(s\) cannot keep 3"),
    ((Admit(0, 0), Forward(((0, 2),), (1, 1))), {}, "a forward needs one count a row, got 2 for 1 rows"),
    ((Admit(0, 0), Forward(((0, 4),))), {}, "a row of 4 tokens does not fit into a window of 3"),
    ((Admit(0, 0), Forward(((0, 2),), (1,))), {"window": 1}, "a row of 2 tokens does not fit into a window of 1"),
    ((), {"window": 5}, "window must be at most the capacity 4, got 5"),
    ((), {"drafts": "odd"}, "drafts must be one of drawn, finite, finite-2, nan, got 'odd'"),
])  # fmt: skip
def test_what_cannot_happen_is_named(schedule: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(schedule, **changed)
