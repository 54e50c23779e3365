"""Budgets are valid and tight: the random-rounding twin stays within them and comes near them."""

from __future__ import annotations

import itertools

import pytest
import torch
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st

from replaycheck_reference.gauge.functions import FunctionTable, load_table
from replaycheck_reference.gauge.gates import gate_errors
from replaycheck_reference.gauge.mamba2 import bound
from replaycheck_reference.gauge.twin import Signs, Twin, independent_signs, site_signs
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.policy import PRODUCTS, WEIGHTS, Path, Policy, Softplus
from replaycheck_reference.recurrences.batched.mamba2 import decompose
from replaycheck_reference.variant import Mamba2Variant

HEADS, HEAD_DIM, STATE_DIM = 2, 4, 8
TABLE = load_table("numpy")


Limits = tuple[float, float] | None


def window(
    seed: int, tokens: int, *, rate: float, positive: bool, sparse: bool, limits: Limits = None
) -> tuple[Mamba2Layer, torch.Tensor, Mamba2Tokens]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        value = torch.randn(*shape, generator=generator)
        value = value.abs() if positive else value
        if sparse:  # one column carries nearly all: the first summand passes through every addition
            value = value * torch.where(torch.arange(shape[-1]) == 0, 1.0, 2.0**-12)
        return value

    layer = Mamba2Layer(
        heads=HEADS, head_dim=HEAD_DIM, state_dim=STATE_DIM, groups=1, decay=torch.full((HEADS,), -rate),
        dt_bias=torch.full((HEADS,), -2.0),
        variant=Mamba2Variant(skip=False, dt_limits=limits),
    )
    tokens_ = Mamba2Tokens(
        x=draw(tokens, HEADS, HEAD_DIM).bfloat16(), dt=torch.randn(tokens, HEADS, generator=generator).bfloat16(),
        B=draw(tokens, 1, STATE_DIM).bfloat16(), C=draw(tokens, 1, STATE_DIM).bfloat16(),
    )
    return layer, draw(HEADS, HEAD_DIM, STATE_DIM), tokens_


def ratios(seed: int, tokens: int, policy: Policy, signs: Signs, *, table: FunctionTable = TABLE, **data: object) -> tuple[float, float]:
    """Largest |twin - exact| / budget of the last token's outputs and of the end state."""
    layer, start, run = window(seed, tokens, **data)  # type: ignore[arg-type]
    terms = decompose(layer, start, run)
    path = policy.paths["step"]
    budget = bound(layer, terms, policy, ("step",) * tokens, table, activation="bf16")
    twin = Twin(layer, terms, policy, table, signs, activation="bf16")
    output = (twin.output(tokens - 1, path) - terms.ungated()[-1]).abs() / budget.outputs[-1]
    state = (twin.state(tokens - 1, path) - terms.end()).abs() / budget.end
    return float(output.max()), float(state.max())


@examples(200)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 6), weights=st.sampled_from(WEIGHTS), output=st.sampled_from(("state", "scores")),
    product=st.sampled_from(PRODUCTS), rate=st.sampled_from((0.0, 1e-3, 1.0, 16.0, 200.0)), positive=st.booleans(), sparse=st.booleans(),
    coherent=st.booleans(), naive=st.booleans(), accumulator=st.sampled_from(("fp32", "tensor", "bf16")),
    limits=st.sampled_from((None, (0.125, 0.25), (0.0, 0.125))),
)
@example(  # the second-order term of softplus, once left out
    seed=777199, tokens=1, weights="product", output="state", product="fp64", rate=0.0, positive=False, sparse=False, coherent=False,
    naive=False, accumulator="fp32", limits=None,
)
def test_the_random_rounding_twin_never_leaves_its_budget(
    seed: int, tokens: int, weights: str, output: str, product: str, rate: float, positive: bool, sparse: bool, coherent: bool, naive: bool,
    accumulator: str, limits: Limits,
) -> None:
    path = Path(output=output, weights=weights, token=product, readout=product, score=product, value=product, accumulator=accumulator)
    policy = Policy(paths={"step": path}, softplus=Softplus(form="naive" if naive else "relative", units=4))
    generator = torch.Generator().manual_seed(seed)
    signs = site_signs(generator) if coherent else independent_signs(generator)
    assert max(ratios(seed, tokens, policy, signs, rate=rate, positive=positive, sparse=sparse, limits=limits)) <= 1


def test_a_dt_at_its_limit_has_no_error_and_one_near_it_no_more_than_without() -> None:
    policy, path, limits = Policy(softplus=Softplus(units=4)), Path(weights="sum"), (0.125, 0.25)
    layer, start, run = window(5, 40, rate=0.0, positive=False, sparse=False, limits=limits)
    free = window(5, 40, rate=0.0, positive=False, sparse=False)[0]
    held, wide = (gate_errors(each, decompose(each, start, run), policy, path, TABLE).weight.diagonal().T for each in (layer, free))
    dt = decompose(layer, start, run).dt
    at_limit = (dt == limits[0]) | (dt == limits[1])
    assert 10 < int(at_limit.sum()) < at_limit.numel()
    assert bool((held[at_limit] <= 1e-8 * dt[at_limit]).all()) and bool((held[~at_limit] <= (1 + 1e-6) * wide[~at_limit]).all())
    assert bool((held[~at_limit] > 1e-8 * dt[~at_limit]).all())


@pytest.mark.parametrize(("weights", "output"), list(itertools.product(WEIGHTS, ("state", "scores"))))
def test_the_random_rounding_twin_reaches_half_of_its_budget(weights: str, output: str) -> None:
    policy = Policy(paths={"step": Path(output=output, weights=weights)}, softplus=Softplus(units=4))
    best = [0.0, 0.0]
    for seed in range(120):
        signs = site_signs(torch.Generator().manual_seed(seed))
        tokens = 1 + seed % 3
        reached = ratios(seed, tokens, policy, signs, rate=(0.01, 2.0, 30.0)[seed % 3], positive=True, sparse=True)
        best = [max(a, b) for a, b in zip(best, reached, strict=True)]
    assert min(best) >= 0.5


def test_the_float64_terms_add_up_to_the_token_by_token_recurrence() -> None:
    layer, start, run = window(3, 7, rate=3.0, positive=False, sparse=False)
    terms = decompose(layer, start, run)
    assert layer.dt_bias is not None
    state = start.double()
    for index in range(7):
        dt = torch.nn.functional.softplus(run.dt[index].double() + layer.dt_bias.double(), threshold=1e3)
        decay = torch.exp(layer.decay.double() * dt)
        state = decay[:, None, None] * state + (dt[:, None] * run.x[index].double())[:, :, None] * run.B[index].double()[:, None, :]
        torch.testing.assert_close(terms.outputs()[index], (state * run.C[index].double()[:, None, :]).sum(-1), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(terms.end(), state, rtol=1e-13, atol=1e-13)


def test_a_path_that_the_policy_lacks_is_named() -> None:
    layer, start, run = window(0, 1, rate=1.0, positive=False, sparse=False)
    with pytest.raises(ValueError, match="path 'flush' is not in the policy; it has step"):
        bound(layer, decompose(layer, start, run), Policy(), ("flush",), TABLE, activation="bf16")
