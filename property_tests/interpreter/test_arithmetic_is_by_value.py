"""Element-wise arithmetic, reductions and scans work on values, rounded as declared, in every format."""

from __future__ import annotations

from typing import Any

import pytest

Probed = dict[str, Any]


@pytest.mark.parametrize("name", ("bf16", "fp16", "e4m3", "e5m2"))
def test_every_operation_on_pairs_of_patterns_is_correctly_rounded(probed: Probed, name: str) -> None:
    assert set(probed["arithmetic"]["pairs"][name].values()) == {0}


@pytest.mark.parametrize("name", ("fp32", "fp64", "fp16", "bf16"))
def test_a_fused_multiply_add_is_rounded_once(probed: Probed, name: str) -> None:
    assert probed["arithmetic"]["fma"][name] == 0
    assert probed["arithmetic"]["fma rounded twice"] > 100


def test_maximum_and_clamp_take_the_number_where_one_operand_is_nan(probed: Probed) -> None:
    assert probed["arithmetic"]["nan"] == {
        "maximum": [3.0, 1.0, None, 2.0], "minimum, propagating": [None, None, None, 1.0], "clamp": [0.0, 1.0, None, 1.0]}
    assert probed["reduction"]["nan in max"] == [1.0, None, 1.0]


def test_a_float_argument_is_an_fp32_scalar(probed: Probed) -> None:
    assert set(probed["arithmetic"]["promotion"].values()) == {0}


@pytest.mark.parametrize("name", ("bf16", "fp16", "e4m3", "e5m2", "fp32"))
@pytest.mark.parametrize("axis", (0, 1))
def test_reductions_of_representable_numbers_are_exact(probed: Probed, name: str, axis: int) -> None:
    assert set(probed["reduction"]["exact"][f"{name}, axis {axis}"].values()) == {0}


@pytest.mark.parametrize("name", ("bf16", "fp16"))
def test_narrow_sums_are_rounded_at_every_addition(probed: Probed, name: str) -> None:
    found = probed["reduction"]["rounding"][name]
    assert found["outside the format"] == 0
    assert found["bound"] <= 1
    assert found["large and ones"] == 6 and found["rounded once"] == 8


def test_scans_are_prefix_sums_in_both_directions(probed: Probed) -> None:
    assert set(probed["reduction"]["scans"].values()) == {0}


def test_a_kernels_own_combine_function_runs_on_slices(probed: Probed) -> None:
    assert probed["reduction"]["recurrence"]["scan"] < 2e-6
    assert probed["reduction"]["recurrence"]["reduce"] < 2e-6


def test_a_reduction_over_everything_gives_a_scalar_and_kept_axes_stay(probed: Probed) -> None:
    assert probed["reduction"]["whole"] == [120.0, 15.0, 28.0, 92.0]


def test_a_step_kernel_with_bf16_state_follows_torch(probed: Probed) -> None:
    found = probed["step"]
    assert found["state elements that differ"] <= found["of"] // 500
    assert found["worst output"] < 0.1


def test_promotion_and_broadcasting_are_the_languages_own(probed: Probed, unpatched: Probed) -> None:
    assert probed["promotion"]["integers"] == unpatched["promotion"]["integers"]
    assert probed["promotion"]["shapes"][:7] == unpatched["promotion"]["shapes"][:7]
    assert probed["promotion"]["shapes"][8:] == unpatched["promotion"]["shapes"][8:]      # row 7 holds a fused multiply-add
    assert len({tuple(row) for row in probed["promotion"]["shapes"]}) == 11


def test_operands_that_do_not_meet_are_refused(probed: Probed) -> None:
    assert probed["promotion"]["negative number and unsigned"] and probed["promotion"]["shapes that do not meet"]
