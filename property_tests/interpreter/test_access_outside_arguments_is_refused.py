"""A kernel that reads or writes outside its arguments is stopped, and told what it did."""

from __future__ import annotations

from typing import Any

import pytest

Probed = dict[str, Any]


def _is(refusal: dict[str, Any], access: str, argument: str, count: int, offset: int) -> bool:
    found = (refusal.get("access"), refusal.get("argument"), refusal.get("count"), refusal.get("offset"))
    return found == (access, argument, count, offset)


def test_access_inside_is_allowed(probed: Probed) -> None:
    assert probed["bounds"]["plain"]["inside"] == {}


def test_reads_past_either_end_are_named(probed: Probed) -> None:
    plain = probed["bounds"]["plain"]
    assert _is(plain["read after"], "read", "X", 8, 16)
    assert _is(plain["read before"], "read", "X", 3, -3)
    assert _is(plain["empty"], "read", "X", 16, 0)


def test_writes_and_atomics_are_named_by_argument(probed: Probed) -> None:
    plain = probed["bounds"]["plain"]
    assert _is(plain["write after"], "write", "O", 12, 16)
    assert _is(plain["keyword"], "write", "O", 12, 16)
    assert _is(plain["atomic"], "write", "O", 1, 16)


def test_the_message_is_one_line_with_kernel_program_argument_and_place(probed: Probed) -> None:
    assert probed["bounds"]["plain"]["read after"]["message"] == (
        "kernel reads, program (0, 0, 0): read of 8 elements outside argument X, first at element offset 16 (allowed 0 to 15)")
    assert probed["bounds"]["plain"]["one line"]


def test_lanes_masked_off_touch_nothing(probed: Probed) -> None:
    masked = probed["bounds"]["masked"]
    assert masked["lanes masked off"] == masked["all masked off"] == masked["write masked off"] == {}
    assert masked["values"] == [0, 1, 2, 3, 4, 5, 6, 7] + [-1] * 8
    assert masked["written"] == list(range(10))


def test_one_lane_too_many_is_seen(probed: Probed) -> None:
    masked = probed["bounds"]["masked"]
    assert _is(masked["one lane too many"], "read", "X", 1, 8)
    assert _is(masked["write one too many"], "write", "O", 1, 10)


def test_the_program_that_strays_is_named(probed: Probed) -> None:
    masked = probed["bounds"]["masked"]
    assert masked["second program"] == {}
    assert masked["wrong stride"]["program"] == [1, 0, 0]
    assert _is(masked["wrong stride"], "read", "X", 1, 35)


def test_a_write_into_a_guard_band_is_refused_before_it_happens(probed: Probed) -> None:
    guards = probed["bounds"]["guards"]
    assert _is(guards["write"], "write", "O", 12, 16)
    assert _is(guards["read"], "read", "X", 1, 16)
    assert guards["storage unchanged"] == 0


def test_a_registered_view_may_be_written_whole_and_through_its_parts(probed: Probed) -> None:
    guards = probed["bounds"]["guards"]
    assert guards["inside"] == guards["sub-view"] == {}
    assert guards["written"] == 80.0


def test_a_pointer_into_the_guard_band_may_touch_nothing(probed: Probed) -> None:
    assert _is(probed["bounds"]["guards"]["guard itself"], "read", "X", 16, 0)


def test_a_view_with_gaps_reaches_to_its_last_element(probed: Probed) -> None:
    strided = probed["bounds"]["guards"]["strided view"]
    assert strided["inside"] == {}
    assert _is(strided["after"], "read", "X", 1, 10)


def test_a_registration_ends_with_its_storage(probed: Probed) -> None:
    assert probed["bounds"]["reused"]["refusal"] == {}


@pytest.mark.parametrize(("kind", "offset"), [("block", 96), ("descriptor", 80)])
def test_block_pointers_and_descriptors_are_checked(probed: Probed, kind: str, offset: int) -> None:
    pointers = probed["bounds"]["pointers"]
    assert pointers[kind] == {}
    assert pointers[f"{kind} of wrong shape"]["argument"] == "X"
    assert pointers[f"{kind} of wrong shape"]["offset"] == offset


def test_pointers_from_a_table_may_touch_tensors_and_no_guard_band(probed: Probed) -> None:
    pointers = probed["bounds"]["pointers"]
    assert pointers["unknown table"] == pointers["table of registered"] == {}
    assert _is(pointers["table beyond registered"], "read", "", 1, 16)


def test_a_pointer_keeps_its_argument_through_casts_and_choices(probed: Probed) -> None:
    pointers = probed["bounds"]["pointers"]
    assert pointers["other type"] == pointers["choice"] == {}
    assert _is(pointers["other type, too many"], "read", "X", 32, 32)


def test_an_offset_that_overflows_int32_is_seen(probed: Probed) -> None:
    assert probed["bounds"]["pointers"]["int32 overflow"]["argument"] == "X"


def test_bf16_atomics_add(probed: Probed) -> None:
    assert probed["bounds"]["bf16 atomics"] == [3.0] * 16


def test_a_tensor_on_another_device_is_refused(probed: Probed) -> None:
    assert probed["bounds"]["device"] == "KernelError: argument X is on meta; the interpreter runs on cpu tensors"
