"""Windows whose outputs and end bits are the exact ones, rounded once, with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.judge.windows import judge_windows
from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.formats.arrays import TORCH_DTYPE, round_to
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.policy import Path, Policy
from replaycheck_reference.recurrences.batched.mamba2 import Mamba2Terms, decompose

POLICY = Policy(paths={"output": Path(output="scores", weights="sum"), "flush": Path(weights="sum"), "step": Path()})

#: What a kernel does with the terms of a window: exact outputs and end state before rounding.
Evaluate = Callable[[Mamba2Terms], tuple[Tensor, Tensor]]


def exactly(terms: Mamba2Terms) -> tuple[Tensor, Tensor]:
    return terms.outputs(), terms.end()


def layer(*, heads: int = 2, head_dim: int = 64, state_dim: int = 128, groups: int = 1, rate: float = 4.0) -> Mamba2Layer:
    return Mamba2Layer(
        heads=heads, head_dim=head_dim, state_dim=state_dim, groups=groups, decay=torch.full((heads,), -rate),
        dt_bias=torch.full((heads,), -4.0), D=torch.ones(heads),
    )


def windows(
    made: Mamba2Layer, evaluate: Evaluate = exactly, *, count: int = 2, tokens: int = 4, state: str = "fp32", output: str = "fp32",
    seed: int = 0
) -> list[Window]:
    """Consecutive windows of one request; each starts from the bits that the one before it published."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    start = draw(*made.state_shape).to(TORCH_DTYPE[state])
    made_windows = []
    for index in range(count):
        run = Mamba2Tokens(
            x=draw(tokens, made.heads, made.head_dim).bfloat16(), dt=draw(tokens, made.heads).bfloat16(),
            B=draw(tokens, made.groups, made.state_dim).bfloat16(), C=draw(tokens, made.groups, made.state_dim).bfloat16(),
        )
        outputs, end = evaluate(decompose(made, start, run))
        window = Window(
            request=0, slot=0, layer=0, position=index * tokens, start=start, tokens=run, outputs=_rounded(outputs, output),
            paths=(*["output"] * (tokens - 1), "flush"), steps=tuple(range(index * tokens, (index + 1) * tokens)), end=_rounded(end, state),
        )
        made_windows.append(window)
        start = _rounded(end, state)
    return made_windows


def _rounded(exact: Tensor, name: str) -> Tensor:
    """Rounded once: torch goes from float64 to fp16 and bf16 by way of float32."""
    return round_to(exact, name).to(TORCH_DTYPE[name])


def judged(made: Mamba2Layer, made_windows: list[Window], *, state: str = "fp32", output: str = "fp32") -> list[Measurement]:
    return judge_windows(made_windows, [made], POLICY.built(state=state, output=output), load_table("numpy"))


def failed(measurements: list[Measurement]) -> dict[str, Measurement]:
    """The failing measurements by guarantee, the worst of each."""
    found: dict[str, Measurement] = {}
    for m in sorted(measurements, key=lambda m: m.ratio):
        if not m.passed:
            found[m.guarantee] = m
    return found


def without_token(terms: Mamba2Terms, token: int) -> Mamba2Terms:
    """The terms with one token's weight gone wherever a later token looks back at it."""
    weight = terms.weight.clone()
    weight[..., token + 1 :, token, :] = 0
    return replace(terms, weight=weight)


def decayed_by(terms: Mamba2Terms, factor: float) -> Mamba2Terms:
    """The terms with the decay of the start state off by a factor."""
    return replace(terms, decay=terms.decay * factor)
