"""The scalar specification of the delta rules and the batched reference are one function, and arithmetic engines agree on it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any

import pytest
import torch
from delta_problems import DeltaProblem, allowed, problem, problems
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import holds, integers, needs_balls
from torch import Tensor

from replaycheck_reference.arithmetic import Arb, Float64, Mpmath
from replaycheck_reference.recurrences import confirm as confirm_module
from replaycheck_reference.recurrences.confirm import confirm
from replaycheck_reference.recurrences.delta import run_head, run_row
from replaycheck_reference.variant import DeltaVariant

#: Forms in which every number is rational.
RATIONAL = {"gate": "given", "A_log": False, "bias": False, "beta": "given", "norm": "off"}


class Fractions:
    """Exact rational numbers; the one exponential they have is that of 0."""

    name = "fractions"

    def working(self) -> AbstractContextManager[object]:
        return nullcontext()

    def number(self, value: float) -> Fraction:
        return Fraction(value)

    def exp(self, value: Fraction) -> Fraction:
        assert value == 0
        return Fraction(1)

    def nearest(self, value: Fraction) -> float:
        return float(value)


def by_spec(arithmetic: Any, given_problem: DeltaProblem) -> tuple[Tensor, Tensor]:
    """Outputs [tokens, heads, head_dim] and end state by the scalar specification, rounded to float64."""
    layer = given_problem.layer
    runs = [run_head(arithmetic, layer, given_problem.start, given_problem.tokens, head=head) for head in range(layer.heads)]

    def rounded(values: list) -> Tensor:
        return torch.tensor([[arithmetic.nearest(v) for v in row] for row in values], dtype=torch.float64)

    return torch.stack([rounded(run.outputs) for run in runs], dim=1), torch.stack([rounded(run.end) for run in runs])


@examples(40)
@given(given_problem=problems())
def test_float64_engines_are_within_their_own_error_of_mpmath(given_problem: DeltaProblem) -> None:
    exact = by_spec(Mpmath(digits=40), given_problem)
    terms = given_problem.terms()
    for got in (by_spec(Float64(), given_problem), (terms.outputs(), terms.end())):
        for value, wanted, bound in zip(got, exact, allowed(given_problem), strict=True):
            assert bool(((value - wanted).abs() <= bound).all()), float(((value - wanted).abs() / bound).max())


@needs_balls
@examples(15)
@given(given_problem=problems(most_tokens=4))
def test_mpmath_lies_in_the_balls_of_arb(given_problem: DeltaProblem) -> None:
    """mpmath at 80 digits against balls of 50: a far smaller error than their radius."""
    engine, layer = Mpmath(digits=80), given_problem.layer
    for head in range(layer.heads):
        balls, points = (run_head(a, layer, given_problem.start, given_problem.tokens, head=head) for a in (Arb(), engine))
        assert holds(balls, points, engine)


@pytest.mark.parametrize("channels", (False, True))
@examples(15)
@given(seed=st.integers(0, 2**32 - 10))
def test_rational_inputs_give_the_rational_answer_of_the_matrix_form(channels: bool, seed: int) -> None:
    """S (I - beta k k^T) + beta v k^T, written out by hand in fractions, element by element."""
    made = problem(variant=DeltaVariant(**RATIONAL, channels=channels), tokens=4, seed=seed)  # type: ignore[arg-type]
    tokens, layer = made.tokens, made.layer
    made = made.with_tokens(g=torch.zeros_like(tokens.g), b=integers(seed, *tokens.b.shape, largest=4) / 4,
                            k=integers(seed + 1, *tokens.k.shape, largest=2), q=integers(seed + 2, *tokens.q.shape, largest=2))
    N = layer.state_dim
    for head in range(layer.heads):
        group = head // 2
        run = run_head(Fractions(), layer, made.start, made.tokens, head=head)  # type: ignore[arg-type]
        state = [[Fraction(s) for s in row] for row in made.start[head].tolist()]
        for t in range(len(made.tokens)):
            beta, k, q, v = (Fraction(float(made.tokens.b[t, head])), *([Fraction(x) for x in values.tolist()] for values in (
                made.tokens.k[t, group], made.tokens.q[t, group], made.tokens.v[t, head].float())))
            transition = [[(1 if i == j else 0) - beta * k[i] * k[j] for j in range(N)] for i in range(N)]
            state = [[sum(row[i] * transition[i][j] for i in range(N)) + beta * v[p] * k[j] for j in range(N)]
                     for p, row in enumerate(state)]
            assert run.outputs[t] == [sum(s * x for s, x in zip(row, q, strict=True)) / 2 for row in state]
        assert run.end == state


@pytest.mark.parametrize("channels", (False, True))
@pytest.mark.parametrize("seed", range(3))
def test_representable_inputs_give_the_same_bits_in_every_engine(channels: bool, seed: int) -> None:
    made = problem(variant=DeltaVariant(**RATIONAL, channels=channels), tokens=4, seed=seed)  # type: ignore[arg-type]
    tokens = made.tokens
    made = DeltaProblem(made.layer, integers(seed, *made.start.shape), made.with_tokens(
        g=torch.zeros_like(tokens.g), b=integers(seed, *tokens.b.shape, largest=2) / 2, k=integers(seed + 1, *tokens.k.shape, largest=1),
        q=integers(seed + 2, *tokens.q.shape, largest=2), v=integers(seed + 3, *tokens.v.shape),
    ).tokens)
    terms, exact = made.terms(), by_spec(Fractions(), made)
    for outputs, end in (by_spec(Float64(), made), by_spec(Mpmath(), made), (terms.outputs(), terms.end())):
        assert torch.equal(outputs, exact[0]) and torch.equal(end, exact[1])


@needs_balls
@examples(10)
@given(given_problem=problems(), row=st.integers(0, 2), column=st.sampled_from((None, 0, 5)))
def test_one_element_is_confirmed_with_a_proven_radius(given_problem: DeltaProblem, row: int, column: int | None) -> None:
    """To 50 digits, or to next to nothing where terms cancel."""
    last = len(given_problem.tokens) - 1
    found = confirm(run_row, given_problem.layer, given_problem.start, given_problem.tokens, last, 1, row, column)
    outputs, end = by_spec(Mpmath(digits=60), given_problem)
    exact = float(outputs[last, 1, row] if column is None else end[1, row, column])
    assert found.engine == "arb" and found.radius is not None
    assert found.radius <= max(1e-50 * abs(found.nearest), 1e-300)
    assert abs(found.nearest - exact) <= 2.0**-52 * abs(exact) + 1e-60


def test_both_engines_confirm_the_same_decimals(monkeypatch: pytest.MonkeyPatch) -> None:
    made = problem(variant=DeltaVariant(channels=True, beta="doubled"))
    arguments: tuple[Any, ...] = (run_row, made.layer, made.start, made.tokens, 5, 3, 2)
    if not confirm_module.available():
        pytest.skip("python-flint is not installed: there is one engine")
    first = [confirm(*arguments, column) for column in (None, 4)]
    monkeypatch.setattr(confirm_module, "available", lambda: False)
    second = [confirm(*arguments, column) for column in (None, 4)]
    assert [each.engine for each in second] == ["mpmath"] * 2
    assert [each.value[:40] for each in first] == [each.value[:40] for each in second]
