"""Casts in the interpreter give the bits that the device gives."""

from __future__ import annotations

from typing import Any

import pytest

Probed = dict[str, Any]
NAMES = ("bf16", "fp16", "e4m3", "e5m2")


@pytest.mark.parametrize("name", NAMES)
def test_fp32_is_rounded_to_the_nearest_value_ties_to_even(probed: Probed, name: str) -> None:
    wrong = {what: count for what, count in probed["cast"]["down"][name].items() if count}
    assert wrong == {}


@pytest.mark.parametrize("name", ("bf16", "fp16"))
def test_rounding_toward_zero_cuts_and_never_overflows(probed: Probed, name: str) -> None:
    assert set(probed["cast"]["toward zero"][name].values()) == {0}


@pytest.mark.parametrize("name", NAMES)
def test_every_bit_pattern_reads_as_its_value(probed: Probed, name: str) -> None:
    assert probed["cast"]["up"][name] == 0


def test_narrow_formats_are_cast_to_each_other_with_one_rounding(probed: Probed) -> None:
    assert len(probed["cast"]["between"]) == 12
    assert set(probed["cast"]["between"].values()) == {0}


@pytest.mark.parametrize("name", NAMES)
def test_fp64_is_not_rounded_twice(probed: Probed, name: str) -> None:
    assert probed["cast"]["from fp64"][name] == 0


def test_integers_are_cast_as_the_device_casts_them(probed: Probed) -> None:
    assert set(probed["cast"]["integers"].values()) == {0}


def test_bf16_constants_keep_six_decimals_as_the_compiler_does(probed: Probed) -> None:
    assert probed["cast"]["bf16 constants"] == {"1e-07": 0.0, "1.5": 1.5, "0.1": 0.10009765625}


def test_the_probes_see_the_faults_of_the_interpreter_as_it_comes(unpatched: Probed) -> None:
    for name in ("bf16", "e4m3", "e5m2"):
        assert unpatched["down"][name]["halfway, to"] > 100
