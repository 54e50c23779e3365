"""What our kernels compile to, what their elementary functions give, and which launches agree bit for bit."""

from __future__ import annotations

from typing import Any

import torch

from replaycheck.adapters.mamba2 import replay, step
from replaycheck.compile import compile_launches, compile_measurements
from replaycheck.interpreter.recorder import Launch

Interpreted = dict[str, Any]


def _units(got: torch.Tensor, exact: torch.Tensor) -> float:
    """Largest relative error in fp32 roundings, where the exact value is a normal number."""
    kept = (exact >= 2.0**-125) & exact.isfinite()
    return float(((got - exact).abs() / exact * 2**24)[kept].max())


def test_every_launch_compiles_for_sm_90_to_what_the_claims_declare(interpreted: Interpreted) -> None:
    launches = [Launch.from_json(told) for told in interpreted["launches"]]
    kernels = {launch.qualname for launch in launches}
    assert kernels == {"replay_kernel", "step_kernel", "advance_kernel"}
    for compiled in compile_launches(launches, timeout=300):
        claims = step.claims if compiled.launch.qualname == "step_kernel" else replay.claims
        for measurement in compile_measurements([compiled], claims):
            assert measurement.passed and not measurement.suspicious, measurement.diagnosis


def test_elementary_functions_keep_a_few_roundings_over_the_whole_range(interpreted: Interpreted) -> None:
    found = {name: torch.tensor(values, dtype=torch.float64) for name, values in interpreted["functions"].items()}
    x = found["x"]
    small = torch.exp(-x.abs())
    assert _units(found["exp"], small) <= 4
    assert _units(found["softplus"], torch.clamp(x, min=0) + torch.log1p(small)) <= 6 < step.claims.policy.softplus.units
    assert _units(found["sigmoid"], torch.where(x < 0, small, torch.ones_like(x)) / (1 + small)) <= 6


def test_softplus_is_exact_where_it_equals_its_argument(interpreted: Interpreted) -> None:
    pairs = dict(zip(interpreted["functions"]["x"], interpreted["functions"]["softplus"], strict=True))
    assert [pairs[x] for x in (32.0, float("inf"), float("-inf"), -104.0)] == [32.0, float("inf"), 0.0, 0.0]


def test_every_width_is_exact_and_strides_configurations_and_far_slots_leave_bits_alone(interpreted: Interpreted) -> None:
    assert [name for name, holds in interpreted["relations"].items() if not holds] == []
