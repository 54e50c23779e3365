"""Memory sees every write, and its poison is there to be seen."""

from typing import Any

import pytest
import torch

from replaycheck.contract.memory import POISONS, Memory, fill_poison

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def _memory() -> tuple[Memory, torch.Tensor]:
    memory = Memory()
    return memory, memory.alloc("state", (2, 3, 4, 5), torch.bfloat16, role="state", slot_axis=1)


def test_nothing_written_is_nothing_changed() -> None:
    memory, _ = _memory()
    assert memory.changed(memory.snapshot()) == []


def test_a_write_is_named_by_buffer_slot_and_element() -> None:
    memory, state = _memory()
    before = memory.snapshot()
    state[1, 2, 3, 1:4] = 7
    (change,) = memory.changed(before)
    assert (change.buffer, change.slot, change.elements, change.guard, change.first) == ("state", 2, 3, False, (1, 3, 1))
    assert memory.changed(before) == []


def test_a_write_of_the_same_number_with_other_bits_is_seen() -> None:
    memory, state = _memory()
    state.zero_()
    before = memory.snapshot()
    state[0, 1, 0, 0] = -0.0
    (change,) = memory.changed(before)
    assert change.slot == 1 and change.elements == 1


@pytest.mark.parametrize("offset", [-1, 2 * 3 * 4 * 5])
def test_a_write_outside_lands_in_a_guard_band(offset: int) -> None:
    memory, state = _memory()
    before = memory.snapshot()
    torch.as_strided(state, (1,), (1,), state.storage_offset() + offset).fill_(1)
    (change,) = memory.changed(before)
    assert change.guard and change.elements == 1 and change.first == (offset,)


def test_slots_may_start_after_a_null_entry() -> None:
    memory = Memory()
    state = memory.alloc("state", (4, 8), torch.float32, role="state", slot_axis=0, first_slot=1)
    before = memory.snapshot()
    state[0] = 0
    state[1] = 0
    assert [c.slot for c in memory.changed(before)] == [-1, 0]


def test_cursors_start_at_zero_and_are_never_poisoned() -> None:
    memory = Memory()
    cursor = memory.alloc("cursor", (4,), torch.int32, role="cursor", slot_axis=0)
    ring = memory.alloc("ring", (4, 8, 3), torch.float32, role="ring", slot_axis=0, row_axis=1)
    ring.zero_()
    memory.poison_slot(2)
    assert cursor.eq(0).all() and ring[2].ne(0).all() and ring[:2].eq(0).all() and ring[3].eq(0).all()


def test_scratch_may_be_written_but_not_beyond_its_ends() -> None:
    memory = Memory()
    scratch = memory.alloc("scratch", (16,), torch.float32, role="scratch")
    before = memory.snapshot()
    scratch.zero_()
    assert memory.changed(before) == []
    memory.poison_scratch()
    assert scratch.ne(0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_poisons_are_finite_of_both_signs_and_differ_everywhere(dtype: torch.dtype) -> None:
    one, two = (torch.empty(6, 50, dtype=dtype) for _ in range(2))
    fill_poison(one, "finite")
    fill_poison(two, "finite-2")
    for poison in (one, two):
        wide = poison.double()
        assert wide.isfinite().all() and (wide > 0).any() and (wide < 0).any() and (wide.abs() > 20).all()
    assert (one.double().sign() == -two.double().sign()).all()
    nan = torch.empty(6, 50, dtype=dtype)
    fill_poison(nan, "nan")
    assert nan.double().isnan().all()


def test_a_slice_with_strides_is_poisoned_and_its_neighbours_are_not() -> None:
    whole = torch.zeros(4, 6, 8)
    fill_poison(whole[:, 2, 1::2], "finite")
    assert int(whole.ne(0).sum()) == 16


@pytest.mark.parametrize(("arguments", "message"), [
    ({"role": "stat"}, "role must be one of"),
    ({"role": "state"}, "needs slot_axis"),
    ({"role": "ring", "slot_axis": 2}, r"slot_axis must lie in \[0, 2\)"),
])
def test_a_wrong_allocation_is_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Memory().alloc("buffer", (2, 3), torch.float32, **arguments)


def test_an_unknown_poison_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="poison must be one of .* got 'zero'"):
        Memory(poison="zero")
    assert len(POISONS) == 3
