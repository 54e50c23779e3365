"""A delta rule worked out in fp32 lies well inside its budgets, and small faults of its gates and keys far outside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from replaycheck.judge.windows import judge_windows
from replaycheck.play.windows import Window
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.policy import Path, Policy
from replaycheck_reference.variant import DeltaVariant

TOKENS, SIZE, HEADS = 4, 128, 2
#: Faults, and how each turns decays, betas and keys.
FAULTS = {
    "decay 2^-18": ("decay", lambda t: t * (1 + 2.0**-18)), "decay in bf16": ("decay", lambda t: t.bfloat16().float()),
    "beta 2^-14": ("beta", lambda t: t * (1 + 2.0**-14)), "beta in bf16": ("beta", lambda t: t.bfloat16().float()),
    "key in bf16": ("key", lambda t: t.bfloat16().float()),
}
BOTH = pytest.mark.parametrize("channels", [False, True])


def made(channels: bool) -> tuple[DeltaLayer, Tensor, DeltaTokens]:
    generator = torch.Generator().manual_seed(11)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    each = (HEADS, SIZE) if channels else (HEADS,)
    layer = DeltaLayer(heads=HEADS, head_dim=SIZE, state_dim=SIZE, groups=1, scale=0.0625, A_log=0.3 * draw(HEADS) - 1,
                       dt_bias=draw(*each) - 3, variant=DeltaVariant(channels=channels))
    tokens = DeltaTokens(q=draw(TOKENS, 1, SIZE).bfloat16(), k=draw(TOKENS, 1, SIZE).bfloat16(), v=draw(TOKENS, HEADS, SIZE).bfloat16(),
                         g=draw(TOKENS, *each).bfloat16(), b=draw(TOKENS, HEADS).bfloat16())
    return layer, 0.3 * draw(HEADS, SIZE, SIZE), tokens


def in_fp32(layer: DeltaLayer, state: Tensor, tokens: DeltaTokens, fault: str) -> tuple[Tensor, Tensor]:
    """Outputs and end state, token after token."""
    where, turned = FAULTS.get(fault, ("", None))

    def through(name: str, value: Tensor) -> Tensor:
        return value if turned is None or name != where else turned(value)

    def normed(x: Tensor) -> Tensor:
        return x / torch.sqrt((x * x).sum(-1, keepdim=True) + layer.variant.eps)

    assert layer.A_log is not None and layer.dt_bias is not None
    rate = torch.exp(layer.A_log)[:, None] if layer.variant.channels else torch.exp(layer.A_log)
    outputs = []
    for t in range(len(tokens)):
        raw = tokens.g[t].float() + layer.dt_bias
        decay = through("decay", torch.exp(-rate * (torch.clamp(raw, min=0) + torch.log1p(torch.exp(-raw.abs())))))
        beta = through("beta", torch.sigmoid(tokens.b[t].float()))
        k, q = through("key", normed(tokens.k[t].float())), normed(tokens.q[t].float()) * layer.scale
        state = state * (decay if layer.variant.channels else decay[:, None])[:, None, :]
        delta = beta[:, None] * (tokens.v[t].float() - (state * k[:, None, :]).sum(-1))
        state = state + delta[:, :, None] * k[:, None, :]
        outputs.append((state * q[:, None, :]).sum(-1))
    return torch.stack(outputs), state


def worst(channels: bool, kind: str, fault: str) -> dict[str, float]:
    """The largest ratio of each guarantee."""
    layer, start, tokens = made(channels)
    outputs, end = in_fp32(layer, start, tokens, fault)
    paths = ("step",) * TOKENS if kind == "step" else ("output",) * (TOKENS - 1) + ("flush",)
    window = Window(request=0, slot=0, layer=0, position=0, start=start, tokens=tokens, outputs=outputs, paths=paths,
                    steps=tuple(range(TOKENS)), end=end)
    policy = Policy(paths={"step": Path(), "output": Path(output="scores", weights="sum"), "flush": Path(weights="sum")})
    found = judge_windows([window], [layer], policy, load_table("numpy"))
    return {m.guarantee: m.ratio for m in sorted(found, key=lambda m: m.ratio) if m.guarantee != "rounding"}


@BOTH
@pytest.mark.parametrize("kind", ["step", "replay"])
def test_fp32_is_inside_and_every_fault_outside(kind: str, channels: bool) -> None:
    assert max(worst(channels, kind, "").values()) < 0.5
    for fault in FAULTS:
        assert max(worst(channels, kind, fault).values()) > 2, fault


@BOTH
@pytest.mark.parametrize("kind", ["step", "replay"])
def test_a_decay_off_by_one_in_a_quarter_million_is_a_gate_that_is_off(kind: str, channels: bool) -> None:
    assert worst(channels, kind, "decay 2^-18")["gates"] > 4
    assert worst(channels, kind, "beta 2^-14")["gates"] > 2
