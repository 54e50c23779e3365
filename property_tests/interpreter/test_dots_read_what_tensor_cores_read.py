"""Dots use the bits of their operands that a tensor core uses."""

from __future__ import annotations

from typing import Any

import pytest

Probed = dict[str, Any]


@pytest.mark.parametrize("name", ("bf16", "fp16", "e4m3", "e5m2"))
def test_products_of_narrow_operands_are_exact(probed: Probed, name: str) -> None:
    found = probed["dot"]["narrow"][name]
    assert found["integers"] == 0
    assert found["relative"] < 64 * 2.0**-24


def test_a_plain_tf32_dot_cuts_its_operands(probed: Probed) -> None:
    assert probed["dot"]["tf32"]["truncated"] == 0
    assert 1e-5 < probed["dot"]["tf32"]["relative"] < 2.0**-9


def test_tf32_rounding_can_be_chosen(probed: Probed) -> None:
    assert probed["dot"]["tf32"]["nearest"] == 0
    assert 1e-6 < probed["dot"]["tf32"]["nearest relative"] < probed["dot"]["tf32"]["relative"]


def test_tf32x3_is_three_tf32_products(probed: Probed) -> None:
    assert probed["dot"]["tf32x3"]["bits"] == 0
    assert probed["dot"]["tf32x3"]["relative"] < 2.0**-20
    assert probed["dot"]["tf32x3"]["unlike ieee"] > 0


def test_ieee_and_split_dots_are_as_accurate_as_they_say(probed: Probed) -> None:
    assert probed["dot"]["ieee"] < 64 * 2.0**-24
    assert probed["dot"]["bf16x6"] < 64 * 2.0**-24
    assert 1e-7 < probed["dot"]["bf16x3"] < 2.0**-15


def test_infinity_and_nan_pass_through(probed: Probed) -> None:
    assert probed["dot"]["special"] == {"inf": True, "nan": True, "tf32x3 inf": True}


def test_short_half_and_integer_dots_run(probed: Probed) -> None:
    assert probed["dot"]["short"] == 0
    assert probed["dot"]["int8"] == 0
    assert probed["dot"]["fp16 sums"] < 2.0**-10
