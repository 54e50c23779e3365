"""Laws of Mamba-2 that any right reference obeys, held to the scalar specification and to the batched reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import mpmath
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import Problem, exactly_summed, integers, needs_balls, problem, problems
from torch import Tensor

from replaycheck_reference.arithmetic import Mpmath
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.recurrences.batched.mamba2 import decompose
from replaycheck_reference.recurrences.closed.mamba2 import Enclosure, closed_form
from replaycheck_reference.recurrences.mamba2 import run_head, run_row
from replaycheck_reference.recurrences.rows import start_row
from replaycheck_reference.variant import Mamba2Variant

ENGINE = Mpmath(digits=50)
SEED = st.integers(0, 2**32 - 100)


def enclose(given_problem: Problem) -> Enclosure:
    return closed_form(given_problem.layer, given_problem.start, given_problem.tokens)


def batched(given_problem: Problem) -> tuple[Tensor, Tensor]:
    terms = decompose(given_problem.layer, given_problem.start, given_problem.tokens)
    return terms.outputs(), terms.end()


@examples(25)
@given(given_problem=problems(), data=st.data())
def test_a_run_may_be_split_anywhere(given_problem: Problem, data: st.DataObject) -> None:
    layer, tokens = given_problem.layer, given_problem.tokens
    cut = data.draw(st.integers(0, len(tokens)), label="cut")
    first = start_row(ENGINE, layer, given_problem.start, head=0, row=0)
    outputs, end = run_row(ENGINE, layer, first, tokens, head=0, row=0)
    begun, middle = run_row(ENGINE, layer, first, tokens[:cut], head=0, row=0)
    rest, split_end = run_row(ENGINE, layer, middle, tokens[cut:], head=0, row=0)
    assert begun + rest == outputs
    assert split_end == end


@needs_balls
@examples(15)
@given(seed=SEED, cut=st.integers(1, 6))
def test_the_closed_form_may_be_split_where_the_state_is_a_float(seed: int, cut: int) -> None:
    """Integers and decay 1: the state in between is exact, so that both ways owe the same bits."""
    given_problem = exactly_summed(skip=True, seed=seed, tokens=7)
    whole = enclose(given_problem)
    head = closed_form(given_problem.layer, given_problem.start, given_problem.tokens[:cut])
    assert float(head.end.radius().max()) == 0
    tail = closed_form(given_problem.layer, head.end.nearest(), given_problem.tokens[cut:])
    assert torch.equal(torch.cat([head.outputs.nearest(), tail.outputs.nearest()]), whole.outputs.nearest())
    assert torch.equal(tail.end.nearest(), whole.end.nearest())


@needs_balls
@examples(15)
@given(seed=SEED, skip=st.booleans(), a=st.integers(-3, 3), b=st.integers(-3, 3))
def test_outputs_and_state_are_linear_in_input_and_start(seed: int, skip: bool, a: int, b: int) -> None:
    base = problem(variant=Mamba2Variant(skip=skip), seed=seed)
    xs = [integers(seed + k, *base.tokens.x.shape) for k in (1, 2)]
    starts = [integers(seed + k, *base.start.shape) for k in (3, 4)]
    first, second = (enclose(Problem(base.layer, s, base.with_tokens(x=x).tokens)) for s, x in zip(starts, xs, strict=True))
    mixed = enclose(Problem(base.layer, a * starts[0] + b * starts[1], base.with_tokens(x=a * xs[0] + b * xs[1]).tokens))
    for name in ("outputs", "end"):
        left, one, two = (getattr(e, name) for e in (mixed, first, second))
        for place in product(*map(range, left.shape)):
            assert left[place].overlaps(one[place] * a + two[place] * b)


@needs_balls
@examples(20)
@given(seed=SEED, groups=st.sampled_from((1, 2, 4)), per_group=st.integers(1, 3))
def test_head_h_uses_group_h_over_heads_per_group(seed: int, groups: int, per_group: int) -> None:
    """Every head equals a layer of one head and one group made of its parameters by hand."""
    given_problem = problem(heads=groups * per_group, groups=groups, tokens=3, seed=seed, variant=Mamba2Variant(gated=True))
    whole, (outputs, end) = enclose(given_problem), batched(given_problem)
    for head in range(groups * per_group):
        alone = enclose(one_head(given_problem, head, group=head // per_group))
        assert torch.equal(alone.outputs.nearest()[:, 0], whole.outputs.nearest()[:, head])
        assert torch.equal(alone.end.nearest()[0], whole.end.nearest()[head])
        torch.testing.assert_close(outputs[:, head], alone.outputs.nearest()[:, 0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(end[head], alone.end.nearest()[0], rtol=1e-12, atol=1e-12)


def one_head(given_problem: Problem, head: int, *, group: int) -> Problem:
    layer, tokens, h, g = given_problem.layer, given_problem.tokens, slice(head, head + 1), slice(group, group + 1)
    made = Mamba2Layer(
        heads=1, head_dim=layer.head_dim, state_dim=layer.state_dim, groups=1, variant=layer.variant,
        decay=layer.decay[h], dt_bias=None if layer.dt_bias is None else layer.dt_bias[h], D=None if layer.D is None else layer.D[h],
    )
    z = None if tokens.z is None else tokens.z[:, h]
    picked = Mamba2Tokens(x=tokens.x[:, h], dt=tokens.dt[:, h], B=tokens.B[:, g], C=tokens.C[:, g], z=z)
    return Problem(made, given_problem.start[h], picked)


@examples(20)
@given(given_problem=problems(gated=False))
def test_zero_input_only_decays_the_state(given_problem: Problem) -> None:
    """S_T = exp(A sum dt) S_0, with the exponent summed up first."""
    silent = given_problem.with_tokens(x=torch.zeros_like(given_problem.tokens.x))
    layer, far = silent.layer, mpmath.mp.clone()
    far.dps = 80
    for head in range(layer.heads):
        bias = 0.0 if layer.dt_bias is None else float(layer.dt_bias[head])
        raws = [far.mpf(dt) + far.mpf(bias) for dt in silent.tokens.dt[:, head].tolist()]
        low, high = layer.variant.dt_limits or (-far.inf, far.inf)
        total = far.fsum(min(max(far.log(1 + far.exp(raw)) if layer.variant.softplus else raw, low), high) for raw in raws)
        parameter = far.mpf(float(layer.decay[head]))
        decay = far.exp(total * (parameter if layer.variant.decay_parameter == "A" else -far.exp(parameter)))
        run = run_head(ENGINE, layer, silent.start, silent.tokens, head=head)
        for row, begun in zip(run.end, silent.start[head].tolist(), strict=True):
            assert all(abs(far.mpf(s) - decay * b) <= abs(decay * b) * far.mpf(10) ** -50 for s, b in zip(row, begun, strict=True))


@examples(10)
@given(seed=SEED, rate=st.sampled_from((0.0, 1.0, 1e4)))
def test_a_step_size_of_zero_leaves_the_state_alone(seed: int, rate: float) -> None:
    given_problem = problem(variant=Mamba2Variant(softplus=False, bias=False), rate=rate, seed=seed)
    still = given_problem.with_tokens(dt=torch.zeros_like(given_problem.tokens.dt))
    for head in range(still.layer.heads):
        run = run_head(ENGINE, still.layer, still.start, still.tokens, head=head)
        assert run.end == still.start[head].double().tolist()
    assert torch.equal(batched(still)[1], still.start.double())


@examples(15)
@given(given_problem=problems(gated=False), seed=SEED)
def test_the_past_does_not_see_the_future(given_problem: Problem, seed: int) -> None:
    """Changing the last token changes no earlier output."""
    tokens = given_problem.tokens
    x = tokens.x.clone()
    x[-1] = integers(seed, *x.shape[1:]).to(x.dtype)
    changed = given_problem.with_tokens(x=x)
    for head in range(given_problem.layer.heads):
        runs = [run_head(ENGINE, p.layer, p.start, p.tokens, head=head) for p in (given_problem, changed)]
        assert runs[0].outputs[:-1] == runs[1].outputs[:-1]


@examples(15)
@given(given_problem=problems(gated=False), seed=SEED)
def test_the_gate_multiplies_the_output_and_leaves_the_state(given_problem: Problem, seed: int) -> None:
    variant = given_problem.layer.variant
    z = integers(seed, *given_problem.tokens.x.shape)
    gated = given_problem.with_layer(variant=Mamba2Variant(**{**vars(variant), "gated": True})).with_tokens(z=z)
    for head in range(given_problem.layer.heads):
        plain, with_gate = (run_head(ENGINE, p.layer, p.start, p.tokens, head=head) for p in (given_problem, gated))
        assert plain.end == with_gate.end
        for t, row in enumerate(plain.outputs):
            for p, y in enumerate(row):
                factor = mpmath.mpf(float(z[t, head, p])) / (1 + mpmath.exp(-float(z[t, head, p])))
                assert abs(with_gate.outputs[t][p] - y * factor) <= 1e-14 * abs(y * factor)


@examples(15)
@given(given_problem=problems())
def test_d_adds_d_times_x(given_problem: Problem) -> None:
    if given_problem.layer.D is None or given_problem.layer.variant.gated:
        given_problem = problem()
    skip = given_problem.layer.skip_of_rows()
    assert skip is not None
    skip = skip.expand(-1, given_problem.layer.head_dim)
    bare = given_problem.with_layer(variant=replace(given_problem.layer.variant, skip=False, skip_rows=False), D=None)
    for head in range(given_problem.layer.heads):
        with_skip, without = (run_head(ENGINE, p.layer, p.start, p.tokens, head=head) for p in (given_problem, bare))
        for t, row in enumerate(without.outputs):
            for p, y in enumerate(row):
                added = mpmath.mpf(float(skip[head, p])) * mpmath.mpf(float(given_problem.tokens.x[t, head, p]))
                assert abs(with_skip.outputs[t][p] - (y + added)) <= 1e-14 * (abs(y) + abs(added))
