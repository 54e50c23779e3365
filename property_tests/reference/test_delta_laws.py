"""Laws that follow from the delta rules' formulas, and gates, norms and betas against their definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import pytest
import torch
from delta_problems import DeltaProblem, problem, problems
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import integers, needs_balls

from replaycheck_reference.arithmetic import Arb, Float64, Mpmath
from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.recurrences.delta import beta, log_decays, normed, run_head, run_row
from replaycheck_reference.recurrences.rows import start_row
from replaycheck_reference.variant import DeltaVariant
from replaycheck_reference.variant.numbers import as_fp32

ENGINE = Mpmath(digits=50)
FAR = mpmath.mp.clone()
FAR.dps = 250
GIVEN = DeltaVariant(gate="given", A_log=False, bias=False, beta="given", norm="off")


def near(value: Any, wanted: Any) -> bool:
    return bool(abs(FAR.mpf(value) - wanted) <= FAR.mpf(10) ** -49 * abs(wanted))


@pytest.mark.parametrize("channels", (False, True))
@pytest.mark.parametrize("A_log", (False, True))
@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("raw", (-100.0, -0.375, 0.0, 3.5, 88.0))
def test_gates_are_their_formulas(channels: bool, A_log: bool, bias: bool, raw: float) -> None:
    for gate in ("classic", "lower_bound"):
        layer = problem(variant=DeltaVariant(channels=channels, gate=gate, A_log=A_log, bias=bias)).layer  # type: ignore[arg-type]
        for head in range(layer.heads):
            for channel, found in enumerate(log_decays(ENGINE, layer, head, torch.full((layer.state_dim if channels else 1,), raw))):
                place = (head, channel) if channels else (head,)
                x = FAR.mpf(raw) + (FAR.mpf(0) if layer.dt_bias is None else FAR.mpf(float(layer.dt_bias[place])))
                rate = FAR.mpf(1) if layer.A_log is None else FAR.exp(FAR.mpf(float(layer.A_log[head])))
                wanted = -rate * FAR.log(1 + FAR.exp(x)) if gate == "classic" else -5 / (1 + FAR.exp(-rate * x))
                assert near(found, wanted)


@pytest.mark.parametrize("raw", (-60.0, 0.0, 0.75, 9.0))
def test_beta_is_its_formula(raw: float) -> None:
    sigmoid = 1 / (1 + FAR.exp(-FAR.mpf(raw)))
    for form, wanted in (("sigmoid", sigmoid), ("doubled", 2 * sigmoid), ("given", FAR.mpf(raw))):
        assert near(beta(ENGINE, problem(variant=DeltaVariant(beta=form)).layer, raw), wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", (0.0, 2.0**-60, 2.0**-10, 1.0, 2.0**60))
def test_norms_are_their_formulas(size: float) -> None:
    x = size * torch.tensor([1.5, -2.0, 0.0, 0.25, 3.0, -1.0])
    root, eps = FAR.sqrt(FAR.fsum(FAR.mpf(v) ** 2 for v in x.tolist())), FAR.mpf(as_fp32(1e-6))
    for norm, wanted in (("inside", FAR.sqrt(root * root + eps)), ("outside", root + eps), ("max", max(root, eps)), ("off", FAR.mpf(1))):
        found = normed(ENGINE, problem(variant=DeltaVariant(norm=norm)).layer, x)  # type: ignore[arg-type]
        assert all(near(got, FAR.mpf(v) / wanted) for got, v in zip(found, x.tolist(), strict=True))


def test_the_state_decays_then_is_asked_then_corrected_then_read() -> None:
    """S = 8, a = 1/2 to double precision, k = 2, beta = 1/4, v = 3, q = 5, scale = 1/2: d = (3 - 4 * 2) / 4, S = 4 + 2 d, o = S 5 / 2."""
    layer = DeltaLayer(heads=1, head_dim=1, state_dim=1, groups=1, scale=0.5, variant=GIVEN)
    tokens = DeltaTokens(q=torch.tensor([[[5.0]]]), k=torch.tensor([[[2.0]]]), v=torch.tensor([[[3.0]]]),
                         g=torch.tensor([[-0.6931471805599453]], dtype=torch.float64), b=torch.tensor([[0.25]]))
    run = run_head(Float64(), layer, torch.tensor([[[8.0]]]), tokens, head=0)
    assert abs(run.end[0][0] - 1.5) <= 1e-14 and abs(run.outputs[0][0] - 3.75) <= 1e-14


@examples(20)
@given(given_problem=problems(), data=st.data())
def test_a_run_may_be_split_anywhere(given_problem: DeltaProblem, data: st.DataObject) -> None:
    layer, tokens = given_problem.layer, given_problem.tokens
    cut = data.draw(st.integers(0, len(tokens)), label="cut")
    first = start_row(ENGINE, layer, given_problem.start, head=3, row=1)
    outputs, end = run_row(ENGINE, layer, first, tokens, head=3, row=1)
    begun, middle = run_row(ENGINE, layer, first, tokens[:cut], head=3, row=1)
    rest, split_end = run_row(ENGINE, layer, middle, tokens[cut:], head=3, row=1)
    assert begun + rest == outputs and split_end == end


@examples(15)
@given(given_problem=problems())
def test_a_head_is_its_rows(given_problem: DeltaProblem) -> None:
    layer = given_problem.layer
    run = run_head(ENGINE, layer, given_problem.start, given_problem.tokens, head=2)
    for row in range(layer.head_dim):
        outputs, end = run_row(ENGINE, layer, start_row(ENGINE, layer, given_problem.start, head=2, row=row), given_problem.tokens, head=2,
                               row=row)
        assert outputs == [each[row] for each in run.outputs] and end == run.end[row]


@needs_balls
@examples(10)
@given(given_problem=problems(), seed=st.integers(0, 2**32 - 100), a=st.integers(-3, 3), b=st.integers(-3, 3))
def test_outputs_and_state_are_linear_in_values_and_start(given_problem: DeltaProblem, seed: int, a: int, b: int) -> None:
    vs = [integers(seed + n, *given_problem.tokens.v.shape) for n in (1, 2)]
    starts = [integers(seed + n, *given_problem.start.shape) for n in (3, 4)]
    balls, layer = Arb(), given_problem.layer

    def run(start: torch.Tensor, v: torch.Tensor) -> list[Any]:
        head = run_head(balls, layer, start, given_problem.with_tokens(v=v).tokens, head=1)
        return sum(head.outputs + head.end, [])

    mixed = run(a * starts[0] + b * starts[1], a * vs[0] + b * vs[1])
    with balls.working():
        for left, one, two in zip(mixed, run(starts[0], vs[0]), run(starts[1], vs[1]), strict=True):
            assert left.overlaps(one * a + two * b)


@examples(15)
@given(given_problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_the_past_does_not_see_the_future(given_problem: DeltaProblem, seed: int) -> None:
    tokens = given_problem.tokens
    v, k = tokens.v.clone(), tokens.k.clone()
    v[-1], k[-1] = integers(seed, *v.shape[1:]).to(v.dtype), integers(seed, *k.shape[1:]).to(k.dtype) + 1
    changed = given_problem.with_tokens(v=v, k=k)
    runs = [run_head(ENGINE, each.layer, each.start, each.tokens, head=0) for each in (given_problem, changed)]
    assert runs[0].outputs[:-1] == runs[1].outputs[:-1]


@examples(15)
@given(given_problem=problems(beta="given"))
def test_a_beta_of_zero_only_decays_the_state(given_problem: DeltaProblem) -> None:
    """S_T = S_0 diag(exp(sum g)), whatever keys and values say; the exponents are summed up first."""
    silent = given_problem.with_tokens(b=torch.zeros_like(given_problem.tokens.b))
    layer, tokens = silent.layer, silent.tokens
    for head in (0, 3):
        each = [log_decays(ENGINE, layer, head, tokens.g[t, head].reshape(-1)) for t in range(len(tokens))]
        total = [FAR.exp(FAR.fsum(FAR.mpf(g) for g in channel)) for channel in zip(*each, strict=True)]
        total = total if layer.variant.channels else total * layer.state_dim
        end = run_head(ENGINE, layer, silent.start, tokens, head=head).end
        for row, begun in zip(end, silent.start[head].tolist(), strict=True):
            assert all(near(s, factor * b) for s, b, factor in zip(row, begun, total, strict=True))


@examples(15)
@given(given_problem=problems(beta="given", norm="off"), t=st.integers(0, 5))
def test_a_beta_of_one_makes_the_state_hold_the_value_at_a_key_of_length_one(given_problem: DeltaProblem, t: int) -> None:
    layer, last = given_problem.layer, min(t, len(given_problem.tokens) - 1)
    k, b = given_problem.tokens.k.clone(), given_problem.tokens.b.clone()
    k[last], b[last] = torch.tensor([0.5, -0.5, 0.0, 0.5, 0.5, 0.0]).to(k.dtype), 1.0
    made = given_problem.with_tokens(k=k, b=b, q=k)
    run = run_head(ENGINE, layer, made.start, made.tokens[: last + 1], head=1)
    for got, v in zip(run.outputs[last], made.tokens.v[last, 1].double().tolist(), strict=True):
        assert abs(got - v / 2) <= 1e-45  # scale


@examples(15)
@given(given_problem=problems(channels=True))
def test_channels_of_one_decay_are_a_head_of_one_decay(given_problem: DeltaProblem) -> None:
    layer, tokens = given_problem.layer, given_problem.tokens
    bias = None if layer.dt_bias is None else layer.dt_bias[:, 0]
    one = replace(layer, variant=replace(layer.variant, channels=False), dt_bias=bias)
    same = replace(layer, dt_bias=None if bias is None else bias[:, None].expand(-1, layer.state_dim).contiguous())
    spread = replace(tokens, g=tokens.g[..., :1].expand_as(tokens.g).contiguous())
    assert run_head(ENGINE, one, given_problem.start, replace(tokens, g=tokens.g[..., 0]), head=3) == \
        run_head(ENGINE, same, given_problem.start, spread, head=3)
    first, second = replace(given_problem, layer=one, tokens=replace(tokens, g=tokens.g[..., 0])).terms(), \
        replace(given_problem, layer=same, tokens=spread).terms()
    torch.testing.assert_close(first.outputs(), second.outputs(), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(first.end(), second.end(), rtol=1e-13, atol=1e-13)
