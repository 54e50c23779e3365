"""The scalar specification of formats, its array twin, torch, ml_dtypes and gfloat are one function."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from replaycheck_reference.formats.arrays import (
    TORCH_DTYPE,
    format_name,
    max_finite,
    round_to,
    smallest_normal,
    smallest_subnormal,
    ulp,
    unit,
)
from replaycheck_reference.formats.spec import FORMATS, OVERFLOWS, ROUNDINGS, Special, decode, encode

SMALL = ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2")
NUMPY_DTYPE = {
    "fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
INTEGER = {8: np.uint8, 16: np.uint16}


def every_pattern(name: str) -> np.ndarray:
    bits = FORMATS[name].bits
    return np.arange(1 << bits, dtype=INTEGER[bits])


def every_value(name: str) -> np.ndarray:
    """float64 of every pattern, by ml_dtypes (numpy for fp16)."""
    with np.errstate(invalid="ignore"):  # NaN
        return every_pattern(name).view(NUMPY_DTYPE[name]).astype(np.float64)


def points(name: str, step: type[np.floating]) -> np.ndarray:
    """Every value, every midpoint and the places where overflow begins, each with its neighbours in the wider format `step`."""
    values = every_value(name)
    values = np.unique(values[np.isfinite(values)])
    half = float(ulp(torch.tensor([max_finite(name)], dtype=torch.float64), name)) / 2
    edges = [max_finite(name) + k * half for k in (1, 2, 4)] + [float(np.finfo(step).max), float(np.finfo(step).tiny)]
    base = np.concatenate([values, (values[1:] + values[:-1]) / 2, edges, np.negative(edges), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    with np.errstate(over="ignore"):  # neighbours of the largest value, and 2^128 as an fp32
        base = base.astype(step)
        return np.concatenate([base, np.nextafter(base, step(np.inf)), np.nextafter(base, step(-np.inf))]).astype(np.float64)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal, zeros with their signs, NaN where NaN."""
    equal = (left == right) & (np.signbit(left) == np.signbit(right))
    return bool((equal | (np.isnan(left) & np.isnan(right))).all())


def exact(value: float) -> Fraction | Special:
    if np.isnan(value):
        return Special.NAN
    if np.isinf(value):
        return Special.POSITIVE_INFINITY if value > 0 else Special.NEGATIVE_INFINITY
    return Special.NEGATIVE_ZERO if value == 0 and np.signbit(value) else Fraction(value)


def as_float(value: Fraction | Special) -> float:
    return float(value.value if isinstance(value, Special) else value)


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_decodes_as_torch_and_ml_dtypes_decode_it(name: str) -> None:
    spec = np.array([as_float(decode(int(bits), FORMATS[name])) for bits in every_pattern(name)])
    signed = torch.from_numpy(every_pattern(name).view(np.int8 if FORMATS[name].bits == 8 else np.int16))
    assert same(spec, every_value(name))
    assert same(spec, signed.view(TORCH_DTYPE[name]).to(torch.float64).numpy())


@pytest.mark.parametrize("name", SMALL)
def test_every_pattern_decodes_as_gfloat_decodes_it(name: str) -> None:
    gfloat = pytest.importorskip("gfloat")
    assert same(every_value(name), gfloat.decode_ndarray(gfloat_format(name), every_pattern(name).astype(np.int64)))


@pytest.mark.parametrize("name", SMALL)
def test_encoding_undoes_decoding(name: str) -> None:
    fmt = FORMATS[name]
    for bits in range(1 << fmt.bits):
        value = decode(bits, fmt)
        if value is not Special.NAN:
            assert encode(value, fmt) == bits
    assert decode(encode(Special.NAN, fmt), fmt) is Special.NAN


@pytest.mark.parametrize("name", SMALL)
def test_arrays_round_every_midpoint_as_the_specification_does(name: str) -> None:
    """16-bit formats: nearest at every point, the other roundings at one in sixteen (the specification is slow)."""
    values = points(name, np.float64)
    table = every_value(name)
    for rounding in ROUNDINGS:
        for overflow in OVERFLOWS:
            plain = rounding == "nearest" and overflow == "infinite"
            some = values[:: 1 if FORMATS[name].bits == 8 else 3 if plain else 17]
            codes = [encode(exact(v), FORMATS[name], rounding=rounding, overflow=overflow) for v in some.tolist()]
            got = round_to(torch.from_numpy(some), name, rounding=rounding, overflow=overflow).numpy()
            assert same(got, table[np.array(codes)]), (rounding, overflow)


@pytest.mark.parametrize("name", SMALL)
def test_arrays_round_every_midpoint_as_gfloat_does(name: str) -> None:
    gfloat = pytest.importorskip("gfloat")
    modes = {"nearest": gfloat.RoundMode.TiesToEven, "nearest_away": gfloat.RoundMode.TiesToAway, "truncate": gfloat.RoundMode.TowardZero}
    values = points(name, np.float64)
    for rounding, mode in modes.items():
        for overflow in OVERFLOWS:
            with np.errstate(over="ignore"):  # infinities overflow inside gfloat
                wanted = gfloat.round_ndarray(gfloat_format(name), values, mode, overflow == "saturate")
            got = round_to(torch.from_numpy(values), name, rounding=rounding, overflow=overflow).numpy()
            assert same(got, wanted), (rounding, overflow)


@pytest.mark.parametrize("name", SMALL)
def test_arrays_round_every_midpoint_as_torch_and_ml_dtypes_do(name: str) -> None:
    """From fp32, as both go through fp32 and would round twice from float64."""
    values = points(name, np.float32)
    got = round_to(torch.from_numpy(values), name).numpy()
    with np.errstate(all="ignore"):
        assert same(got, values.astype(np.float32).astype(NUMPY_DTYPE[name]).astype(np.float64))
    cast = torch.from_numpy(values).float().to(TORCH_DTYPE[name]).double().numpy()
    # torch releases differ in what e4m3 makes of overflow, so there only what stays in range is compared
    inside = np.abs(values) < 464 if name == "fp8_e4m3" else np.full(values.shape, True)
    assert same(got[inside], cast[inside])


@examples(20)
@given(seed=st.integers(0, 2**32 - 1))
def test_fp32_is_rounded_as_torch_rounds_it(seed: int) -> None:
    values = wide_floats(seed, 20000)
    assert same(round_to(values, "fp32").numpy(), values.float().double().numpy())
    nearest, cut = round_to(values, "fp32"), round_to(values, "fp32", rounding="truncate")
    assert bool((cut.abs() <= values.abs()).all())
    assert bool(((values - cut).abs() < ulp(values, "fp32"))[nearest.isfinite()].all())


@examples(20)
@given(seed=st.integers(0, 2**32 - 1))
def test_tf32_is_an_fp32_with_thirteen_bits_less(seed: int) -> None:
    """Truncation clears the bits; ties away adds half of the last kept bit first; both on the integer pattern."""
    single = wide_floats(seed, 20000).float()
    single = single[single.isfinite()]
    bits = single.view(torch.int32)
    cut = (bits & ~0x1FFF).view(torch.float32)
    away = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    assert same(round_to(single.double(), "tf32", rounding="truncate").numpy(), cut.double().numpy())
    assert same(round_to(single.double(), "tf32", rounding="nearest_away").numpy(), away.double().numpy())


@examples(30)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(("fp32", "tf32", "fp64")), rounding=st.sampled_from(ROUNDINGS))
def test_wide_formats_are_rounded_as_the_specification_rounds_them(seed: int, name: str, rounding: str) -> None:
    values = torch.cat([wide_floats(seed, 100), near_midpoints(seed, 100, name)])
    got = round_to(values, name, rounding=rounding)
    wanted = [as_float(decode(encode(exact(v), FORMATS[name], rounding=rounding), FORMATS[name])) for v in values.tolist()]
    assert same(got.numpy(), np.array(wanted))


@pytest.mark.parametrize("name", SMALL)
def test_ulp_is_the_distance_to_the_next_value(name: str) -> None:
    values = every_value(name)
    ordered = torch.from_numpy(np.unique(values[np.isfinite(values) & (values >= 0)]))
    assert torch.equal(ulp(ordered[:-1], name), ordered.diff())
    assert torch.equal(ulp(-ordered[:-1], name), ordered.diff())


@pytest.mark.parametrize("name", tuple(TORCH_DTYPE))
def test_limits_are_those_of_torch(name: str) -> None:
    info = torch.finfo(TORCH_DTYPE[name])
    assert (max_finite(name), smallest_normal(name), 2 * unit(name)) == (info.max, info.smallest_normal, info.eps)
    assert smallest_subnormal(name) == info.smallest_normal * info.eps
    assert format_name(TORCH_DTYPE[name]) == name


def test_wrong_arguments_are_named() -> None:
    one = torch.ones(1, dtype=torch.float64)
    for call, words in (
        (lambda: round_to(one, "fp31"), "format .*'fp31'"),
        (lambda: round_to(one, "bf16", rounding="up"), "rounding .*'up'"),
        (lambda: round_to(one, "bf16", overflow="wrap"), "overflow .*'wrap'"),
        (lambda: round_to(one.float(), "bf16"), "values must be float64"),
        (lambda: ulp(one.half(), "bf16"), "values must be float64"),
        (lambda: format_name(torch.int32), "torch.int32"),
        (lambda: decode(256, FORMATS["fp8_e4m3"]), "256"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def gfloat_format(name: str) -> object:
    formats = pytest.importorskip("gfloat.formats")
    names = {"fp16": "binary16", "bf16": "bfloat16", "fp8_e4m3": "ocp_e4m3", "fp8_e5m2": "ocp_e5m2"}
    return getattr(formats, f"format_info_{names[name]}")


def wide_floats(seed: int, count: int) -> Tensor:
    """Finite float64 whose exponents reach beyond both ends of fp32."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal(count) * np.exp2(rng.integers(-165, 140, count).astype(float)))


def near_midpoints(seed: int, count: int, name: str) -> Tensor:
    """Midpoints between values of the format and their float64 neighbours."""
    rng = np.random.default_rng(seed)
    value = round_to(wide_floats(seed, count), name, overflow="saturate")
    middle = (value + torch.copysign(ulp(value, name) / 2, value)).numpy()
    return torch.from_numpy(np.nextafter(middle, middle + rng.integers(-1, 2, count) * np.abs(middle)))
