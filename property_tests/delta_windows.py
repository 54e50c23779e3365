"""Small windows of the delta rules, drawn from a few numbers and a seed."""

from __future__ import annotations

import torch
from torch import Tensor

from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.variant import DeltaVariant

__all__ = ["KEYS", "window"]

HEADS, GROUPS, HEAD_DIM, STATE_DIM = 4, 2, 3, 6
#: What keys of a window look like.
KEYS = ("free", "collinear", "repeated", "alternating", "zero", "tiny")


def window(
    seed: int, tokens: int, *, variant: DeltaVariant, keys: str = "free", beta: float | None = None, gate: float | None = None,
    state_dim: int = STATE_DIM,
) -> tuple[DeltaLayer, Tensor, DeltaTokens]:
    """A layer, a start state and tokens. beta: raw beta of every token. gate: raw gate (or log decay) of every second token."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    each = (HEADS, state_dim) if variant.channels else (HEADS,)
    layer = DeltaLayer(
        heads=HEADS, head_dim=HEAD_DIM, state_dim=state_dim, groups=GROUPS, scale=0.5, A_log=draw(HEADS) if variant.A_log else None,
        dt_bias=draw(*each) if variant.bias else None, variant=variant,
    )
    g, b = draw(tokens, *each), draw(tokens, HEADS)
    if variant.gate == "given":
        g = -g.abs()
    if variant.beta == "given":
        b = torch.sigmoid(b)
    if gate is not None:
        g[::2] = gate
    if beta is not None:
        b[:] = beta
    run = DeltaTokens(q=draw(tokens, GROUPS, state_dim).bfloat16(), k=_keys(draw(tokens, GROUPS, state_dim), keys).bfloat16(),
                      v=draw(tokens, HEADS, HEAD_DIM).bfloat16(), g=g, b=b)
    return layer, draw(HEADS, HEAD_DIM, state_dim), run


def _keys(drawn: Tensor, kind: str) -> Tensor:
    token = torch.arange(len(drawn))[:, None, None]
    if kind == "collinear":
        return drawn[:1] + 2.0**-6 * drawn
    if kind == "repeated":
        return drawn[:1].expand_as(drawn).clone()
    if kind == "alternating":
        return drawn[:1] * torch.where(token % 2 == 0, 1.0, -1.0)
    if kind == "zero":
        return drawn * (token % 2)
    return drawn * 2.0**-60 if kind == "tiny" else drawn
