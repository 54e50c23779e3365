"""Gates and functions of every arithmetic engine against their definitions."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import needs_balls, problem

from replaycheck_reference.arithmetic import Arb, Arithmetic, Float64, Mpmath
from replaycheck_reference.recurrences.batched.mamba2 import decompose
from replaycheck_reference.recurrences.mamba2 import gate
from replaycheck_reference.variant import Mamba2Variant

FAR = mpmath.mp.clone()
FAR.dps = 250

ENGINES = [pytest.param(Float64(), 4 * 2.0**-53, id="float64"), pytest.param(Mpmath(digits=50), 1e-50, id="mpmath")]


def relative_error(arithmetic: Arithmetic, value: object, wanted: mpmath.mpf) -> mpmath.mpf:
    got = FAR.mpf(value) if not isinstance(arithmetic, Arb) else FAR.mpf(value.mid().str(120, radius=False))  # type: ignore[attr-defined]
    return abs(got - wanted) / abs(wanted)


#: fp32 numbers in -110 .. 110: beyond both ends of naive evaluation in fp32.
RAW = st.floats(-110, 110, width=32)


@pytest.mark.parametrize(("arithmetic", "tolerance"), ENGINES)
@examples(60)
@given(raw=RAW)
def test_softplus_is_log_of_one_plus_exp(arithmetic: Arithmetic, tolerance: float, raw: float) -> None:
    got = arithmetic.softplus(arithmetic.number(raw))
    assert relative_error(arithmetic, got, FAR.log(1 + FAR.exp(FAR.mpf(raw)))) <= tolerance


@pytest.mark.parametrize(("arithmetic", "tolerance"), ENGINES)
@examples(60)
@given(raw=RAW)
def test_sigmoid_is_one_over_one_plus_exp(arithmetic: Arithmetic, tolerance: float, raw: float) -> None:
    got = arithmetic.sigmoid(arithmetic.number(raw))
    assert relative_error(arithmetic, got, 1 / (1 + FAR.exp(-FAR.mpf(raw)))) <= tolerance


@needs_balls
@examples(60)
@given(raw=RAW)
def test_balls_of_softplus_and_sigmoid_hold_the_definition(raw: float) -> None:
    import flint

    balls = Arb(digits=50)
    with balls.working():
        value = balls.number(raw)
        found = balls.softplus(value), balls.sigmoid(value)
    with flint.ctx.workdps(200):
        power = flint.arb(raw).exp()
        wanted = (1 + power).log(), power / (1 + power)
        for ball, truth in zip(found, wanted, strict=True):
            assert ball.contains(truth)
            assert ball.rel_accuracy_bits() >= 167  # 50 digits


@pytest.mark.parametrize("raw", (-3e38, -1e4, 1e4, 3e38))
@pytest.mark.parametrize("engine", [Float64, Mpmath, pytest.param(Arb, marks=needs_balls)])
def test_far_arguments_of_softplus_are_zero_or_themselves(engine: type[Float64] | type[Mpmath] | type[Arb], raw: float) -> None:
    arithmetic = engine()
    with arithmetic.working():
        assert arithmetic.nearest(arithmetic.softplus(arithmetic.number(raw))) == max(raw, 0.0)


@examples(10)
@given(raws=st.lists(RAW, min_size=1, max_size=64))
def test_the_batched_softplus_is_log_of_one_plus_exp(raws: list[float]) -> None:
    small = problem(heads=1, groups=1, head_dim=1, state_dim=1, tokens=len(raws), variant=Mamba2Variant(bias=False))
    terms = decompose(small.layer, small.start, replace(small.tokens, dt=torch.tensor(raws)[:, None]))
    for raw, dt in zip(raws, terms.dt[:, 0].tolist(), strict=True):
        assert relative_error(Float64(), dt, FAR.log(1 + FAR.exp(FAR.mpf(raw)))) <= 4 * 2.0**-53


@pytest.mark.parametrize("softplus", (False, True))
@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("decay_parameter", ("A", "A_log"))
def test_gate_is_its_formula(softplus: bool, bias: bool, decay_parameter: str) -> None:
    layer = problem(variant=Mamba2Variant(softplus=softplus, bias=bias, decay_parameter=decay_parameter)).layer
    engine = Mpmath(digits=50)
    for head in range(layer.heads):
        raw = FAR.mpf(0.375) + (FAR.mpf(float(layer.dt_bias[head])) if bias else 0)
        dt = FAR.log(1 + FAR.exp(raw)) if softplus else raw
        parameter = FAR.mpf(float(layer.decay[head]))
        decay = FAR.exp(dt * (parameter if decay_parameter == "A" else -FAR.exp(parameter)))
        got = gate(engine, layer, head, 0.375)
        assert relative_error(engine, got.dt, dt) <= 1e-50
        assert relative_error(engine, got.decay, decay) <= 1e-50


def test_a_log_is_not_its_rounded_a() -> None:
    """A = -exp(A_log) is no fp32 number in general: rounding it moves the decay by a fraction of 2^-24, which the reference tells apart."""
    layer = problem(variant=Mamba2Variant(softplus=False, bias=False, decay_parameter="A_log")).layer
    rounded = problem(variant=Mamba2Variant(softplus=False, bias=False)).with_layer(decay=-layer.decay.double().exp().float()).layer
    engine = Mpmath(digits=50)
    moved = [abs(gate(engine, layer, h, 1.0).decay / gate(engine, rounded, h, 1.0).decay - 1) for h in range(layer.heads)]
    sizes = [abs(float(A)) for A in rounded.decay]
    assert all(0 < float(m) <= 1.01 * 2.0**-24 * s for m, s in zip(moved, sizes, strict=True))


def test_a_log_of_zero_is_a_of_minus_one() -> None:
    by_log = problem(variant=Mamba2Variant(decay_parameter="A_log")).with_layer(decay=torch.zeros(4)).layer
    by_A = problem().with_layer(decay=torch.full((4,), -1.0)).layer
    assert gate(Mpmath(), by_log, 1, -0.5) == gate(Mpmath(), by_A, 1, -0.5)


def test_numbers_that_are_not_finite_are_named() -> None:
    for arithmetic in (Float64(), Mpmath()):
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=f"finite, got {value}"):
                arithmetic.number(value)
    with pytest.raises(ValueError, match="digits must be at least 1, got 0"):
        Mpmath(digits=0)
