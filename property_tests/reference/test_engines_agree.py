"""The scalar specification, the closed form and the batched reference are one function, and arithmetic engines agree on it."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import Problem, exactly_summed, holds, needs_balls, problem, problems
from torch import Tensor

from replaycheck_reference.arithmetic import Arb, Arithmetic, Float64, Mpmath
from replaycheck_reference.recurrences import confirm as confirm_module
from replaycheck_reference.recurrences.batched.mamba2 import decompose
from replaycheck_reference.recurrences.closed import mamba2 as closed_module
from replaycheck_reference.recurrences.closed.balls import Balls
from replaycheck_reference.recurrences.closed.mamba2 import closed_form
from replaycheck_reference.recurrences.confirm import confirm
from replaycheck_reference.recurrences.mamba2 import run_head, run_row
from replaycheck_reference.variant import Mamba2Variant

U = 2.0**-53


def by_spec(arithmetic: Arithmetic, given: Problem) -> tuple[Tensor, Tensor]:
    """Outputs [tokens, heads, head_dim] and end state by the scalar specification, rounded to float64."""
    runs = [run_head(arithmetic, given.layer, given.start, given.tokens, head=head) for head in range(given.layer.heads)]

    def rounded(values: list) -> Tensor:
        return torch.tensor([[arithmetic.nearest(v) for v in row] for row in values], dtype=torch.float64)

    return torch.stack([rounded(run.outputs) for run in runs], dim=1), torch.stack([rounded(run.end) for run in runs])


def allowed(given: Problem) -> tuple[Tensor, Tensor]:
    """A bound on float64's error, outputs and end state.

    Every term passes at most T decays, each with a relative error of a few units and |A dt| more for the rounded exponent, then the
    dot product and the gate; the moduli of all terms bound what they add up to.
    """
    terms = decompose(given.layer, given.start, given.tokens)
    outputs, end = given.moduli()
    exponent = terms.log_decay.abs().cumsum(0)  # [tokens, heads]
    tokens = len(given.tokens)
    units = 12 * tokens + given.layer.state_dim + 20 + 6 * tokens * exponent
    floor = 1e-300  # results of underflow
    return units[:, :, None] * U * outputs.abs() + floor, units[-1, :, None, None] * U * end + floor


@needs_balls
@examples(40)
@given(given_problem=problems())
def test_balls_of_recurrence_and_closed_form_overlap(given_problem: Problem) -> None:
    layer, start, tokens = given_problem.layer, given_problem.start, given_problem.tokens
    enclosure = closed_form(layer, start, tokens)
    for head in range(layer.heads):
        run = run_head(Arb(), layer, start, tokens, head=head)
        assert all(enclosure.outputs[t, head, p].overlaps(y) for t, row in enumerate(run.outputs) for p, y in enumerate(row))
        assert all(enclosure.end[head, p, n].overlaps(s) for p, row in enumerate(run.end) for n, s in enumerate(row))


@needs_balls
@examples(20)
@given(given_problem=problems(), digits=st.sampled_from((20, 50, 120)))
def test_radii_are_below_the_digits_asked_for(given_problem: Problem, digits: int) -> None:
    enclosure = closed_form(given_problem.layer, given_problem.start, given_problem.tokens, digits=digits)
    for balls, moduli in zip((enclosure.outputs, enclosure.end), given_problem.moduli(), strict=True):
        assert bool((balls.radius() <= 10.0**-digits * moduli).all())


@needs_balls
@examples(15)
@given(given_problem=problems(most_tokens=4))
def test_mpmath_lies_in_the_balls_of_arb(given_problem: Problem) -> None:
    """mpmath at 80 digits against balls of 50: a far smaller error than their radius."""
    layer, start, tokens = given_problem.layer, given_problem.start, given_problem.tokens
    engine = Mpmath(digits=80)
    for head in range(layer.heads):
        balls, points = (run_head(arithmetic, layer, start, tokens, head=head) for arithmetic in (Arb(), engine))
        assert holds(balls, points, engine)


@examples(25)
@given(given_problem=problems())
def test_float64_engines_are_within_their_own_error_of_mpmath(given_problem: Problem) -> None:
    exact = by_spec(Mpmath(digits=40), given_problem)
    terms = decompose(given_problem.layer, given_problem.start, given_problem.tokens)
    for got in (by_spec(Float64(), given_problem), (terms.outputs(), terms.end())):
        for value, wanted, bound in zip(got, exact, allowed(given_problem), strict=True):
            assert bool(((value - wanted).abs() <= bound).all()), float(((value - wanted).abs() / bound).max())


@pytest.mark.parametrize("skip", (False, True))
@pytest.mark.parametrize("seed", range(4))
def test_representable_inputs_give_integers_exactly(skip: bool, seed: int) -> None:
    given_problem = exactly_summed(skip=skip, seed=seed)
    start, tokens = given_problem.start.double(), given_problem.tokens.map(Tensor.double)
    group = given_problem.layer.group_of_head()
    state, outputs = start, []
    for t in range(len(tokens)):
        state = state + (tokens.dt[t, :, None] * tokens.x[t])[:, :, None] * tokens.B[t, group][:, None, :]
        read = (state * tokens.C[t, group][:, None, :]).sum(-1)
        outputs.append(read if not skip else read + given_problem.layer.D.double()[:, None] * tokens.x[t])
    terms = decompose(given_problem.layer, given_problem.start, given_problem.tokens)
    for outs, end in (by_spec(Float64(), given_problem), by_spec(Mpmath(), given_problem), (terms.outputs(), terms.end())):
        assert torch.equal(outs, torch.stack(outputs))
        assert torch.equal(end, state)


@needs_balls
def test_chunks_carry_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    given_problem = problem(tokens=11, variant=Mamba2Variant(gated=True))
    whole = closed_form(given_problem.layer, given_problem.start, given_problem.tokens)
    monkeypatch.setattr(closed_module, "_CHUNK", 4)
    parts = closed_form(given_problem.layer, given_problem.start, given_problem.tokens)
    for balls, other in ((whole.outputs, parts.outputs), (whole.end, parts.end)):
        assert overlap_everywhere(balls, other)
        assert float(other.radius().max()) < 1e-50


@needs_balls
@pytest.mark.parametrize("log2_size", (0, 20, 120))
def test_huge_exponents_cost_no_digits(log2_size: int) -> None:
    """One token, then silence, at A dt up to -2^120: what is left lies far below every float64, and still has its digits."""
    given_problem = problem(rate=2.0**log2_size, variant=Mamba2Variant(skip=False))
    x = given_problem.tokens.x.clone()
    x[1:] = 0
    enclosure = closed_form(given_problem.layer, given_problem.start, given_problem.with_tokens(x=x).tokens)
    for balls in (enclosure.outputs, enclosure.end):
        assert all(balls[place].rel_accuracy_bits() >= 160 for place in product(*map(range, balls.shape)))


@needs_balls
def test_some_heads_alone_are_the_same_heads() -> None:
    given_problem = problem(heads=4, groups=2)
    layer, start, tokens = given_problem.layer, given_problem.start, given_problem.tokens
    whole, some = closed_form(layer, start, tokens), closed_form(layer, start, tokens, heads=(3, 0))
    assert some.heads == (3, 0)
    assert some.outputs.shape == (6, 2, 3)
    assert torch.equal(some.outputs.nearest(), whole.outputs.nearest()[:, [3, 0]])
    assert torch.equal(some.end.nearest(), whole.end.nearest()[[3, 0]])


@needs_balls
def test_no_start_is_a_zero_start() -> None:
    given_problem = problem()
    none = closed_form(given_problem.layer, None, given_problem.tokens)
    zero = closed_form(given_problem.layer, torch.zeros_like(given_problem.start), given_problem.tokens)
    assert torch.equal(none.outputs.nearest(), zero.outputs.nearest())
    assert torch.equal(none.end.nearest(), zero.end.nearest())


@needs_balls
def test_error_is_what_float64_leaves() -> None:
    """The error of the nearest float64 is not zero and is below half an ulp; that of the next float64 is one ulp more."""
    given_problem = problem()
    balls = closed_form(given_problem.layer, given_problem.start, given_problem.tokens).outputs
    nearest = balls.nearest()
    left = balls.error(nearest)
    assert 0 < float((left / nearest).abs().max()) <= U
    above = nearest.nextafter(torch.tensor(torch.inf, dtype=torch.float64))
    torch.testing.assert_close(balls.error(above), (above - nearest) + left, rtol=1e-15, atol=0.0)
    for wrong in (nearest[1:], nearest.float()):
        with pytest.raises(ValueError, match="values must be float64"):
            balls.error(wrong)


@needs_balls
def test_one_element_is_confirmed_with_a_proven_radius() -> None:
    given_problem = problem(variant=Mamba2Variant(gated=True))
    layer, start, tokens = given_problem.layer, given_problem.start, given_problem.tokens
    enclosure = closed_form(layer, start, tokens)
    output, state = confirm(run_row, layer, start, tokens, 5, 2, 1, None), confirm(run_row, layer, start, tokens, 5, 2, 1, 3)
    for found, ball in ((output, enclosure.outputs[5, 2, 1]), (state, enclosure.end[2, 1, 3])):
        assert found.engine == "arb"
        assert found.nearest == float(ball.mid())
        assert found.radius is not None and found.radius <= 1e-50 * abs(found.nearest)
        assert abs(float(found.value) - found.nearest) <= U * abs(found.nearest)


def test_one_element_is_computed_by_mpmath_where_balls_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirm_module, "available", lambda: False)
    given_problem = problem()
    outputs, end = by_spec(Mpmath(), given_problem)
    found = confirm(run_row, given_problem.layer, given_problem.start, given_problem.tokens, 5, 2, 1, None)
    assert (found.engine, found.radius, found.nearest) == ("mpmath", None, float(outputs[5, 2, 1]))
    assert confirm(run_row, given_problem.layer, given_problem.start, given_problem.tokens, 5, 2, 1, 4).nearest == float(end[2, 1, 4])


def test_both_engines_confirm_the_same_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    given_problem = problem(rate=50.0)
    arguments = (given_problem.layer, given_problem.start, given_problem.tokens, 5, 3, 2)
    first = confirm(run_row, *arguments, None)
    monkeypatch.setattr(confirm_module, "available", lambda: False)
    second = confirm(run_row, *arguments, None)
    assert first.value[:40] == second.value[:40]


@pytest.mark.parametrize(("index", "words"), [((6, 0, 0, None), "token .*6"), ((0, 4, 0, None), "head .*4"), ((0, 0, -1, None), "row .*-1"),
                                              ((0, 0, 0, 5), "column .*5")])
def test_an_index_out_of_range_is_named(index: tuple[int, int, int, int | None], words: str) -> None:
    given_problem = problem()
    with pytest.raises(ValueError, match=words):
        confirm(run_row, given_problem.layer, given_problem.start, given_problem.tokens, *index)


@needs_balls
def test_wrong_inputs_of_the_closed_form_are_named() -> None:
    given_problem = problem()
    layer, start, tokens = given_problem.layer, given_problem.start, given_problem.tokens
    bad = tokens.x.clone()
    bad[1, 2, 0] = torch.nan
    for arguments, heads, words in (
        ((layer, start[1:], tokens), None, "start must have shape"),
        ((layer, start, given_problem.with_tokens(x=bad).tokens), None, "tokens.x must be finite, got nan"),
        ((layer, start, given_problem.with_tokens(B=tokens.B[:, :1]).tokens), None, "tokens.B must have shape"),
        ((layer, start, tokens[:0]), None, "at least one token"),
        ((layer, start, tokens), (4,), "heads must be in 0 .. 3, got 4"),
        ((layer, start, given_problem.with_tokens(z=tokens.x).tokens), None, "tokens.z must be absent"),
    ):
        with pytest.raises(ValueError, match=words):
            closed_form(*arguments, heads=heads)


def overlap_everywhere(left: Balls, right: Balls) -> bool:
    return left.shape == right.shape and all(left[place].overlaps(right[place]) for place in product(*map(range, left.shape)))
