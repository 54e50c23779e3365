"""The fast store of drift against `formats.scales.stored`, bit for bit."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from replaycheck.drift.storage import FORMATS, ROUNDINGS, ROW, Storage, store
from replaycheck_reference.formats.scales import stored
from replaycheck_reference.formats.spec import FORMATS as SPECIFIED
from replaycheck_reference.formats.spec import decode, encode


def drawn(seed: int, exponents: int) -> Tensor:
    """Values in many binades, some on the grid of every format, some halfway, some zero: [4, ROW]."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(4, ROW, dtype=torch.float64, generator=random)
    values *= torch.exp2(torch.randint(-exponents, exponents + 1, values.shape, generator=random).to(torch.float64))
    coarse = (values * 16).round() / 16
    return torch.where(torch.rand(values.shape, generator=random) < 0.4, coarse, values)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@given(seed=st.integers(0, 2**16), exponents=st.integers(0, 20))
@examples(10)
def test_a_store_gives_what_the_reference_gives(name: str, rounding: str, seed: int, exponents: int) -> None:
    storage = Storage(format=name, rounding=rounding)
    values = drawn(seed, exponents)
    words = torch.randint(0, 1 << 20, values.shape, generator=torch.Generator().manual_seed(seed)) if rounding == "stochastic" else None
    dither = None if words is None else words.to(torch.float64) * 2.0**-20
    expected = stored(values, name, scale="row" if storage.scaled else "none", rounding=rounding, overflow="saturate", words=words, bits=20)
    assert torch.equal(store(values, storage, dither), expected.values)


def test_a_store_of_zeros_is_zeros_and_a_store_twice_is_a_store_once() -> None:
    for name in FORMATS:
        storage = Storage(format=name)
        assert torch.equal(store(torch.zeros(2, ROW, dtype=torch.float64), storage), torch.zeros(2, ROW, dtype=torch.float64))
        once = store(drawn(1, 3), storage)
        if not storage.scaled:
            assert torch.equal(store(once, storage), once)


def test_fp16_is_rounded_as_the_specification_says() -> None:
    values = drawn(2, 18)[:1]
    got = store(values, Storage(format="fp16"))
    for value, found in zip(values.flatten().tolist(), got.flatten().tolist(), strict=True):
        assert decode(encode(Fraction(value), SPECIFIED["fp16"], overflow="saturate"), SPECIFIED["fp16"]) == Fraction(found)


@pytest.mark.parametrize(("fields", "said"), [
    ({"format": "fp12"}, "fp12"), ({"format": "fp16", "rounding": "up"}, "'up'"), ({"format": "fp16", "period": 0}, "got 0"),
])
def test_an_unknown_policy_is_named(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Storage(**fields)  # type: ignore[arg-type]


def test_stochastic_rounding_without_dither_is_refused() -> None:
    with pytest.raises(ValueError, match="needs dither"):
        store(torch.ones(1, ROW, dtype=torch.float64), Storage(format="bf16", rounding="stochastic"))
