"""Small problems for the reference: a layer, a start state and tokens, drawn from a few numbers and a seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from replaycheck_reference.arithmetic import Mpmath, available
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.recurrences.rows import HeadRun
from replaycheck_reference.variant import Mamba2Variant

needs_balls = pytest.mark.skipif(not available(), reason="python-flint is not installed: proven balls are not tested")


def holds(balls: HeadRun[Any], points: HeadRun[Any], engine: Mpmath) -> bool:
    """Whether every ball of a head meets the point of `engine`, which is off by 10^(10 - digits) of the largest, at most."""
    import flint

    values = [abs(point) for point in sum(points.outputs + points.end, [])]
    with flint.ctx.workdps(engine.digits + 20):
        size = flint.arb(engine.text(max(values))) * flint.arb(10) ** (10 - engine.digits)
        pairs = zip(sum(balls.outputs + balls.end, []), sum(points.outputs + points.end, []), strict=True)
        return all(ball.overlaps(flint.arb(engine.text(point), size)) for ball, point in pairs)


@dataclass(frozen=True)
class Problem:
    """What a reference is given: start is [heads, head_dim, state_dim] fp32."""

    layer: Mamba2Layer
    start: Tensor
    tokens: Mamba2Tokens

    def with_tokens(self, **tensors: Tensor) -> Problem:
        return replace(self, tokens=replace(self.tokens, **tensors))

    def with_layer(self, **fields: Any) -> Problem:
        return replace(self, layer=replace(self.layer, **fields))

    def moduli(self) -> tuple[Tensor, Tensor]:
        """Sums of the moduli of the terms that make up outputs [tokens, heads, head_dim] and end state, to float64."""
        layer, tokens = self.layer, self.tokens.map(Tensor.double)
        raw = tokens.dt if layer.dt_bias is None else tokens.dt + layer.dt_bias.double()
        dt = torch.logaddexp(raw, torch.zeros(())) if layer.variant.softplus else raw
        dt = dt if layer.variant.dt_limits is None else dt.clamp(*layer.variant.dt_limits)
        A = layer.decay.double() if layer.variant.decay_parameter == "A" else -layer.decay.double().exp()
        group, state, outputs, skip = layer.group_of_head(), self.start.double().abs(), [], layer.skip_of_rows()
        for t in range(len(tokens)):
            added = (dt[t, :, None] * tokens.x[t])[:, :, None] * tokens.B[t, group][:, None, :]
            state = (A * dt[t]).exp()[:, None, None] * state + added.abs()
            read = torch.einsum("hpn,hn->hp", state, tokens.C[t, group].abs())
            skipped = 0.0 if skip is None else (skip.double() * tokens.x[t]).abs()
            gated = 1.0 if tokens.z is None else (tokens.z[t] * tokens.z[t].sigmoid()).abs()
            outputs.append((read + skipped) * gated)
        return torch.stack(outputs), state


def variants(*, gated: bool | None = None) -> st.SearchStrategy[Mamba2Variant]:
    flag = st.booleans()
    plain = st.builds(
        Mamba2Variant, softplus=flag, bias=flag, skip=flag, gated=flag if gated is None else st.just(gated),
        decay_parameter=st.sampled_from(("A", "A_log")),
    )
    limits = st.sampled_from((None, (0.25, 0.625), (0.0, 0.5)))
    return st.builds(
        lambda variant, rows, dt_limits: replace(variant, skip_rows=rows and variant.skip, dt_limits=dt_limits), plain, flag, limits
    )


@st.composite
def problems(draw: st.DrawFn, *, gated: bool | None = None, most_tokens: int = 6) -> Problem:
    """Up to 4 heads of 3 x 5 in 1, 2 or 4 groups; decays from near 1 to e^-100 a token."""
    groups = draw(st.sampled_from((1, 2)))
    return problem(
        heads=groups * draw(st.integers(1, 2)), head_dim=draw(st.integers(1, 3)), state_dim=draw(st.integers(1, 5)), groups=groups,
        tokens=draw(st.integers(1, most_tokens)), variant=draw(variants(gated=gated)), rate=draw(st.sampled_from((1e-3, 1.0, 100.0))),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def problem(
    *, heads: int = 4, head_dim: int = 3, state_dim: int = 5, groups: int = 2, tokens: int = 6,
    variant: Mamba2Variant | None = None, rate: float = 1.0, seed: int = 0,
) -> Problem:
    """rate: size of A."""
    variant = variant or Mamba2Variant()
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def step_size(*shape: int) -> Tensor:  # never negative without softplus: a state that grows leaves float64 in a few tokens
        return normal(*shape) if variant.softplus else torch.rand(*shape, generator=generator)

    A = -rate * (0.1 + torch.rand(heads, generator=generator))
    layer = Mamba2Layer(
        heads=heads, head_dim=head_dim, state_dim=state_dim, groups=groups, variant=variant,
        decay=A if variant.decay_parameter == "A" else (-A).log(),
        dt_bias=step_size(heads) - 1.0 * variant.softplus if variant.bias else None,
        D=None if not variant.skip else normal(heads, head_dim) if variant.skip_rows else normal(heads),
    )
    made = Mamba2Tokens(
        x=normal(tokens, heads, head_dim).bfloat16(), dt=step_size(tokens, heads).bfloat16(),
        B=normal(tokens, groups, state_dim).bfloat16(), C=normal(tokens, groups, state_dim).bfloat16(),
        z=3 * normal(tokens, heads, head_dim).bfloat16() if variant.gated else None,
    )
    return Problem(layer, normal(heads, head_dim, state_dim), made)


def integers(seed: int, *shape: int, largest: int = 8) -> Tensor:
    """Small integers, exact in every format and in every sum of a few of them."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-largest, largest + 1, shape, generator=generator).float()


def exactly_summed(*, skip: bool, seed: int, tokens: int = 5) -> Problem:
    """Integers, decay exactly 1 (A = -0) and dt of 0, 1 or 2: every result is a small integer."""
    variant = Mamba2Variant(softplus=False, bias=False, skip=skip)
    plain = problem(variant=variant, tokens=tokens, seed=seed)
    heads, head_dim, state_dim, groups = plain.layer.heads, plain.layer.head_dim, plain.layer.state_dim, plain.layer.groups
    made = plain.with_layer(decay=torch.full((heads,), -0.0), D=integers(seed, heads) if skip else None)
    made = made.with_tokens(
        x=integers(seed + 1, tokens, heads, head_dim), dt=integers(seed + 2, tokens, heads, largest=2).abs(),
        B=integers(seed + 3, tokens, groups, state_dim), C=integers(seed + 4, tokens, groups, state_dim),
    )
    return replace(made, start=integers(seed + 5, heads, head_dim, state_dim))
