"""Dyadic arithmetic is exact, or refuses."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.judge.relations.dyadic import Dyadic

numbers = st.builds(lambda m, e: m * 2.0**e, st.integers(-1000, 1000), st.integers(-9, 6))     # products stay inside the 62 bits


@given(left=st.lists(numbers, min_size=3, max_size=3), right=st.lists(numbers, min_size=3, max_size=3))
def test_sums_and_products_are_those_of_fractions(left: list[float], right: list[float]) -> None:
    a, b = (Dyadic.of(torch.tensor(values, dtype=torch.float64)) for values in (left, right))
    pairs = [(Fraction(x), Fraction(y)) for x, y in zip(left, right, strict=True)]
    assert [Fraction(v) for v in a.to_float64().tolist()] == [x for x, _ in pairs]
    assert [Fraction(v) for v in (a + b).to_float64().tolist()] == [x + y for x, y in pairs]
    assert [Fraction(v) for v in (a * b).to_float64().tolist()] == [x * y for x, y in pairs]
    assert Fraction((a * b).sum(0).to_float64().item()) == sum(x * y for x, y in pairs)


def test_too_wide_a_range_is_refused() -> None:
    with pytest.raises(OverflowError, match="the limit is 2\\^62"):
        Dyadic.of(torch.tensor([2.0**40, 2.0**-40]))
    with pytest.raises(ValueError, match="finite"):
        Dyadic.of(torch.tensor([float("inf")]))
