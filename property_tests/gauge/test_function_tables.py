"""Function tables: what they promise of this processor's numpy, and how they are asked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from replaycheck.bench.functions import SCALES, numpy_function, true_function
from replaycheck_reference.gauge.functions import available_tables, envelope, load_table


@pytest.mark.parametrize("function", SCALES)
def test_numpy_on_this_processor_keeps_to_the_shipped_table(function: str) -> None:
    words = np.random.Philox(key=7).random_raw(1 << 17).astype(np.uint64)
    binade = (words % np.uint64(33)).astype(np.int32) - 26
    size = np.ldexp(1 + (words >> np.uint64(41)).astype(np.float64) * 2.0**-23, binade)
    sign = np.where(words >> np.uint64(40) & np.uint64(1), 1.0, -1.0)
    x = torch.from_numpy((size * sign).astype(np.float32))
    x = x[x.abs() < 87]
    true = true_function(function, x)
    scale = true.abs() if SCALES[function] == "relative" else 1 + true
    error = ((numpy_function(function, x).double() - true).abs() / scale)[true.abs() >= 2.0**-126]
    allowed = load_table("numpy").error(function, x.double())[true.abs() >= 2.0**-126]
    assert bool((error <= allowed).all()), f"{function}: measure the table again on this processor (replaycheck.bench.functions)"


def test_the_envelope_allows_what_any_table_allows() -> None:
    x = torch.linspace(-80, 80, 1001, dtype=torch.float64)
    for name in available_tables():
        for function in SCALES:
            assert bool((envelope().error(function, x) >= load_table(name).error(function, x)).all())


def test_an_unknown_table_or_function_is_named() -> None:
    with pytest.raises(ValueError, match="no function table 'abacus'; shipped are h200, numpy"):
        load_table("abacus")
    with pytest.raises(KeyError, match="has no row 'tan'"):
        load_table("numpy").error("tan", torch.zeros(1, dtype=torch.float64))
