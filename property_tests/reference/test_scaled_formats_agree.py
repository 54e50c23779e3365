"""Integers, stochastic rounding and scales: the scalar specification, its array twin, ml_dtypes and gfloat are one function."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck_reference.formats.arrays import CODE_DTYPE, max_finite, round_stochastic, round_to, ulp
from replaycheck_reference.formats.scales import group_codes, group_scale, scales, stored
from replaycheck_reference.formats.spec import (
    FORMATS,
    INTEGERS,
    Special,
    decode,
    decode_integer,
    encode,
    encode_integer,
    encode_stochastic,
)

ROUNDED = ("nearest", "nearest_away", "truncate")


def number(value: Fraction | Special) -> float:
    return float(value.value if isinstance(value, Special) else value)


def rational(value: float) -> Fraction | Special:
    if np.isnan(value):
        return Special.NAN
    return Fraction(value) if np.isfinite(value) else Special.POSITIVE_INFINITY if value > 0 else Special.NEGATIVE_INFINITY


@pytest.mark.parametrize("name", INTEGERS)
def test_every_integer_pattern_is_that_of_torch_and_comes_back(name: str) -> None:
    width = INTEGERS[name]
    patterns = np.arange(1 << width, dtype=np.uint8 if width == 8 else np.uint16)
    values = [decode_integer(int(p), name) for p in patterns]
    assert torch.from_numpy(patterns.view(np.int8 if width == 8 else np.int16)).to(torch.int64).tolist() == values
    assert CODE_DTYPE[name].itemsize * 8 == width
    kept = [v for v in values if v != -(1 << (width - 1))]
    assert all(decode_integer(encode_integer(Fraction(v), name), name) == v for v in kept)
    assert torch.equal(round_to(torch.tensor(kept, dtype=torch.float64), name), torch.tensor(kept, dtype=torch.float64))


def test_integers_are_rounded_at_every_quarter_as_the_specification_rounds_them() -> None:
    quarters = torch.arange(-140 * 4, 140 * 4 + 1, dtype=torch.float64) / 4
    for rounding in ROUNDED:
        wanted = [decode_integer(encode_integer(Fraction(v), "int8", rounding=rounding), "int8") for v in quarters.tolist()]
        assert round_to(quarters, "int8", rounding=rounding).tolist() == wanted
    assert round_to(torch.tensor([1e9, -1e9], dtype=torch.float64), "int16").tolist() == [32767, -32767]
    assert float(ulp(torch.tensor([77.5], dtype=torch.float64), "int8")) == 1


def test_every_pattern_of_four_bits_is_that_of_ml_dtypes_and_gfloat() -> None:
    values = [number(decode(p, FORMATS["fp4_e2m1"])) for p in range(16)]
    theirs = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    assert np.array_equal(values, theirs) and np.array_equal(np.signbit(values), np.signbit(theirs))
    points = np.concatenate([np.arange(-7, 7.125, 0.125), [1e9, -np.inf]])
    got = round_to(torch.from_numpy(points), "fp4_e2m1").numpy()
    assert np.array_equal(got, points.astype(np.float32).astype(ml_dtypes.float4_e2m1fn).astype(np.float64))
    assert got.tolist() == [number(decode(encode(rational(v), FORMATS["fp4_e2m1"]), FORMATS["fp4_e2m1"])) for v in points]
    gfloat = pytest.importorskip("gfloat")
    info = pytest.importorskip("gfloat.formats").format_info_ocp_e2m1
    assert np.array_equal(got, gfloat.round_ndarray(info, points, gfloat.RoundMode.TiesToEven, True))
    with pytest.raises(ValueError, match="fp4_e2m1 has no NaN"):
        encode(Special.NAN, FORMATS["fp4_e2m1"])


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "fp4_e2m1"])
def test_every_word_of_four_bits_rounds_every_sixteenth_as_the_specification_does(name: str) -> None:
    codes = range(1 << (FORMATS[name].bits - 1))
    grid = sorted({abs(number(v)) for v in (decode(c, FORMATS[name]) for c in codes) if isinstance(v, Fraction)})
    between = [low + (high - low) * k / 32 for low, high in zip(grid, grid[1:], strict=False) for k in range(0, 32, 5)]
    points = [*between, *[grid[-1] * f for f in (1, 1.01, 1.2, 2, 5)]]
    points += [-p for p in points]
    for overflow in ("infinite", "saturate"):
        for word in (0, 1, 7, 8, 15):
            got = round_stochastic(torch.tensor(points, dtype=torch.float64), name, torch.full((len(points),), word), bits=4,
                                   overflow=overflow)
            wanted = [number(decode(encode_stochastic(Fraction(p), FORMATS[name], word=word, bits=4, overflow=overflow), FORMATS[name]))
                      for p in points]
            assert np.array_equal(got.numpy(), wanted, equal_nan=True), (overflow, word)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "int8"])
def test_up_is_taken_by_as_many_words_as_the_fraction_says(name: str) -> None:
    words, low = torch.arange(256), torch.tensor(8.0, dtype=torch.float64)
    for eighths in range(8):
        value = (low + eighths / 8 * ulp(low, name)).expand(256)
        got = round_stochastic(value, name, words, bits=8)
        assert int((got > low).sum()) == eighths * 32
        assert torch.equal(round_stochastic(-value, name, words, bits=8), -got)


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(("int8", "int16", "fp8_e4m3", "fp8_e5m2")), rounding=st.sampled_from(ROUNDED))
def test_rows_are_scaled_and_rounded_as_the_specification_does(seed: int, name: str, rounding: str) -> None:
    values = np.random.default_rng(seed).standard_normal((4, 16)).astype(np.float32).astype(np.float64)
    values[0] *= 2.0**-140                                   # too small for a normal scale
    values[1] = 0
    values[2, 5] = 3e5                                       # one outlier
    got = stored(torch.from_numpy(values), name, scale="row", rounding=rounding)
    for row in range(4):
        exact = [Fraction(v) for v in values[row].tolist()]
        scale = group_scale(exact, name)
        assert number(scale) == float(got.scale[row])
        assert [float(c) for c in group_codes(exact, name, scale, rounding=rounding)] == got.codes[row].tolist()
    whole = scales(torch.from_numpy(values), name, "head")
    assert float(whole) == number(group_scale([Fraction(v) for v in values.flatten().tolist()], name))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_group_with_nan_or_infinity_reads_as_nan(bad: float) -> None:
    values = np.ones((2, 32))
    values[0, 3] = bad
    assert group_scale([rational(v) for v in values[0].tolist()], "int8") is Special.NAN
    assert group_codes([rational(v) for v in values[0].tolist()], "int8", Special.NAN) == [0] * 32
    for name, scale in (("int8", "row"), ("fp8_e4m3", "row"), ("fp8_e4m3", "mx"), ("int8", "mx")):
        got = stored(torch.from_numpy(values), name, scale=scale).values
        assert bool(got[0].isnan().all()) and bool(((got[1] - 1).abs() < 0.01).all()), (name, scale)
    assert bool(stored(torch.from_numpy(values), "int8", scale="head").values.isnan().all())


def test_a_block_of_microscaling_has_a_power_of_two_that_leaves_the_largest_element_in_the_top_binade() -> None:
    values = torch.from_numpy(np.random.default_rng(7).standard_normal((8, 64)) * np.exp2(np.arange(8.0))[:, None])
    for name, emax in (("fp8_e4m3", 8), ("fp8_e5m2", 15), ("fp4_e2m1", 2), ("int8", 6)):
        got = stored(values, name, scale="mx")
        amax = values.abs().unflatten(-1, (2, 32)).amax(-1)
        wanted = torch.from_numpy(np.exp2(np.floor(np.log2(amax.numpy())) - emax))
        assert torch.equal(got.scale[:, ::32], wanted)
        assert torch.equal(got.codes, round_to(values / got.scale, name, overflow="saturate"))


def test_blocks_of_two_levels_use_the_whole_range_of_both() -> None:
    values = torch.from_numpy(np.random.default_rng(8).standard_normal((4, 64)))
    values[3, :16] = 0
    got = stored(values, "fp4_e2m1", scale="nvfp4")
    outer = float(round_to(values.abs().amax() / (448 * 6), "fp32"))
    inner = (got.scale / outer).unflatten(-1, (4, 16))[..., 0]
    assert torch.equal(round_to(inner, "fp8_e4m3"), inner) and float(inner.max()) == 448
    assert not got.values[3, :16].any()
    assert bool(((got.values - values).abs() <= got.scale).all())


def test_wrong_arguments_are_named_in_one_line() -> None:
    one = torch.ones(1, 32, dtype=torch.float64)
    for call, words in (
        (lambda: stored(one, "int8"), "format 'int8' needs a scale"),
        (lambda: stored(one, "int8", scale="column"), "scale .*'column'"),
        (lambda: stored(one, "fp8_e4m3", scale="nvfp4"), "nvfp4.*'fp8_e4m3'"),
        (lambda: stored(one[:, :20], "fp8_e4m3", scale="mx"), "multiple of 32, got 20"),
        (lambda: stored(one, "bf16", rounding="stochastic"), "needs words"),
        (lambda: round_stochastic(one, "bf16", one.long(), bits=40), "bits .*40"),
        (lambda: encode_stochastic(Fraction(1), FORMATS["bf16"], word=16, bits=4), "word .*16"),
        (lambda: decode_integer(256, "int8"), "256"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_largest_codes_are_symmetric() -> None:
    assert (max_finite("int8"), max_finite("int16"), max_finite("fp4_e2m1")) == (127, 32767, 6)
