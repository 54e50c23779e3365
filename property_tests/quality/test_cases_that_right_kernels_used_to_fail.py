"""Right kernels at the edges of arithmetic, where a careless budget raises a false alarm; and the same edges with a false claim."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st
from judged import FP32, broken, judged, judged_windows, window
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.families.mamba2 import LAWS
from replaycheck.cases.regimes import REGIMES
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Formats
from replaycheck.faults.base import REPLAY, STEP
from replaycheck.faults.evaluation import Evaluation
from replaycheck.faults.host import HostKernel
from replaycheck.faults.rounding import flush_subnormals
from replaycheck.faults.variants import VARIANTS, Tf32x3
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.variant import Mamba2Variant

seeds = st.integers(0, 2**20)
BARE = Mamba2Variant(softplus=False, bias=False, skip=False)


class Flushing(Evaluation):
    """Every exponential, product and stored state below the smallest normal number is zero."""

    def exponential(self, x: Tensor) -> Tensor:
        return flush_subnormals(super().exponential(x))

    def readout_product(self, state: Tensor, C: Tensor) -> Tensor:
        return flush_subnormals(super().readout_product(state, C))

    def store_state(self, state: Tensor, dtype: torch.dtype) -> Tensor:
        return super().store_state(flush_subnormals(state), dtype)


def flushing(base: HostKernel) -> HostKernel:
    """A kernel that flushes and says so."""
    return replace(base, evaluation=Flushing, claims=replace(base.claims, name="flushing", policy=replace(base.claims.policy, ftz=True)))


def subnormal_case(seed: int, kind: str) -> Case:
    """Nine tokens, stored at the ninth: |z| of at least 9.8 a token then brings every odd head to the subnormals or below, 2^-127."""
    capacity = 3 if kind == "replay" else 1
    return Case(name="dying", heads=2, head_dim=16, state_dim=16, formats=FP32, capacity=capacity, regime="subnormal", seed=seed,
                schedule=plain(1, 9))


@pytest.mark.parametrize("base", [STEP, REPLAY], ids=["step", "replay"])
@pytest.mark.parametrize("flushes", [False, True], ids=["kept", "flushed"])
@examples(15)
@given(seed=seeds)
@example(seed=92369)    # the even head falls least of all and has not arrived by its sixth token
def test_a_state_that_decays_through_the_subnormals_is_right_kept_or_flushed(base: HostKernel, flushes: bool, seed: int) -> None:
    kernel = flushing(base) if flushes else base
    play, measurements = judged(kernel, subnormal_case(seed, base.claims.kind))
    assert not broken(measurements)
    small = [w.end for w in play.windows if w.end is not None]
    assert any(bool((e.abs() < torch.finfo(torch.float32).tiny).any()) for e in small), "the case never reaches the subnormals"


def one_token(state_dim: int, start: Tensor, C: Tensor) -> tuple[Mamba2Layer, Mamba2Tokens]:
    """A layer that forgets nothing and a token that adds nothing: y is the sum of start * C."""
    heads, head_dim, _ = start.shape
    layer = Mamba2Layer(heads=heads, head_dim=head_dim, state_dim=state_dim, groups=1, decay=torch.full((heads,), -0.0), variant=BARE)
    zero = torch.zeros(1, heads, head_dim)
    return layer, Mamba2Tokens(x=zero, dt=torch.ones(1, heads), B=torch.zeros(1, 1, state_dim), C=C[None, None])


def one_large_and_many_halves(state_dim: int) -> Tensor:
    """1, then terms just under half an ulp of 1, each of which a sum that begins at 1 loses."""
    start = torch.full((1, 4, state_dim), 2.0**-24 * (1 - 2.0**-10))
    start[..., 0] = 1
    return start


def test_sequential_sums_at_state_dim_256_stay_within_any_order_and_not_within_a_tree() -> None:
    kernel = VARIANTS["sequential-sums"].kernel
    start = one_large_and_many_halves(256)
    layer, tokens = one_token(256, start, torch.ones(256))
    made = window(kernel, layer, start, tokens)
    assert float(made.outputs.max()) == 1.0
    assert judged_windows(kernel, layer, [made])["outputs"] <= 1
    assert judged_windows(replace(kernel, claims=REPLAY.claims), layer, [made])["outputs"] > 1


@examples(8)
@given(seed=seeds)
def test_sequential_sums_of_256_positive_terms_are_not_flagged(seed: int) -> None:
    case = Case(name="positive", heads=2, head_dim=16, state_dim=256, formats=FP32, capacity=4, regime="positive", seed=seed,
                schedule=plain(1, 5))
    _, measurements = judged(VARIANTS["sequential-sums"].kernel, case)
    assert not broken(measurements)


@pytest.mark.parametrize("state", ["fp32", "bf16", "fp16"])
@examples(10)
@given(seed=seeds)
def test_a_value_that_rounds_up_into_the_next_binade_is_not_flagged(state: str, seed: int) -> None:
    formats = Formats(state=state, activation="fp32", output="fp32")
    step = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}[state]
    generator = torch.Generator().manual_seed(seed)
    below = torch.randint(1, 4, (2, 32, 64), generator=generator)
    start = (1 - below * step).to({"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[state])
    layer = Mamba2Layer(heads=2, head_dim=32, state_dim=64, groups=1, decay=torch.full((2,), -0.0), variant=BARE)
    tokens = Mamba2Tokens(
        x=torch.rand(3, 2, 32, generator=generator), dt=torch.full((3, 2), step), B=torch.rand(3, 1, 64, generator=generator),
        C=torch.rand(3, 1, 64, generator=generator))
    made = window(REPLAY, layer, start, tokens, formats=formats)
    assert made.end is not None
    assert bool((made.end == 1).any())
    assert max(judged_windows(REPLAY, layer, [made], formats=formats).values()) <= 1


def sparse_windows(activation: torch.dtype, seed: int) -> tuple[Mamba2Layer, Tensor, Mamba2Tokens]:
    """One token on a zero state: every error of the product shows."""
    generator = torch.Generator().manual_seed(seed)
    layer = Mamba2Layer(heads=2, head_dim=64, state_dim=64, groups=1, decay=torch.full((2,), -1.0), variant=BARE)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(activation)

    tokens = Mamba2Tokens(x=drawn(1, 2, 64), dt=torch.rand(1, 2, generator=generator).to(activation), B=drawn(1, 1, 64), C=drawn(1, 1, 64))
    return layer, torch.zeros(2, 64, 64), tokens


@pytest.mark.parametrize("activation", ["fp32", "bf16"])
@examples(10)
@given(seed=seeds)
def test_declared_tf32x3_on_one_token_is_not_flagged(activation: str, seed: int) -> None:
    formats = Formats(state="fp32", activation=activation, output="fp32")
    kernel = VARIANTS["tf32x3"].kernel
    layer, start, tokens = sparse_windows({"fp32": torch.float32, "bf16": torch.bfloat16}[activation], seed)
    assert max(judged_windows(kernel, layer, [window(kernel, layer, start, tokens, formats=formats)], formats=formats).values()) <= 1


@examples(10)
@given(seed=seeds)
def test_undeclared_tf32x3_on_one_token_is_flagged_in_the_state(seed: int) -> None:
    kernel = replace(REPLAY, evaluation=Tf32x3)
    layer, start, tokens = sparse_windows(torch.float32, seed)
    assert judged_windows(kernel, layer, [window(kernel, layer, start, tokens)])["state"] > 1


@pytest.mark.parametrize("regime", [name for name in REGIMES if LAWS[name].gates.A_log is not None])
@pytest.mark.parametrize("parameter", ["A", "A_log"])
@examples(4)
@given(seed=seeds)
def test_a_kernel_is_right_whether_it_is_handed_A_or_takes_A_log(regime: str, parameter: str, seed: int) -> None:
    variant = Mamba2Variant(decay_parameter="A" if parameter == "A" else "A_log")
    case = Case(name="decay", heads=4, head_dim=8, state_dim=16, variant=variant, formats=FP32, capacity=4, regime=regime, seed=seed,
                schedule=plain(1, 8))
    assert not broken(judged(REPLAY, case)[1])


class OwnA(Evaluation):
    """A from A_log by an exponential of its own that is off by sixteen fp32 roundings."""

    def decay_rate(self, layer: Mamba2Layer) -> Tensor:
        return super().decay_rate(layer) * (1 + 2.0**-20)


def test_an_A_that_is_off_by_2_to_the_minus_20_is_flagged_in_the_gates() -> None:
    case = Case(name="A", heads=4, head_dim=16, state_dim=32, formats=FP32, capacity=4, regime="fast", schedule=plain(1, 8),
                variant=Mamba2Variant(decay_parameter="A_log", softplus=False))
    assert not broken(judged(REPLAY, case)[1])
    assert "gates" in broken(judged(replace(REPLAY, evaluation=OwnA), case)[1])
