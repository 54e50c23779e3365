"""A Mamba-2 step with bf16 state, token after token, against the same arithmetic in torch."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

HEADS, P, N, TOKENS = 4, 16, 32, 64


@triton.jit
def step(S, X, DT, A, B, C, Y, P: tl.constexpr, N: tl.constexpr):
    h = tl.program_id(0)
    p = tl.arange(0, P)
    n = tl.arange(0, N)
    place = S + h * P * N + p[:, None] * N + n[None, :]
    dt = tl.load(DT + h)
    decay = tl.exp(tl.load(A + h) * dt)
    x = tl.load(X + h * P + p).to(tl.float32)
    state = tl.load(place).to(tl.float32) * decay + (dt * x)[:, None] * tl.load(B + n).to(tl.float32)[None, :]
    tl.store(Y + h * P + p, tl.sum(state * tl.load(C + n).to(tl.float32)[None, :], axis=1))
    tl.store(place, state)


def probe() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    state = draw(HEADS, P, N).bfloat16()
    twin, A = state.clone(), -torch.rand(HEADS, generator=generator)
    worst = 0.0
    for _ in range(TOKENS):
        x, B, C, dt = draw(HEADS, P).bfloat16(), draw(N).bfloat16(), draw(N).bfloat16(), torch.rand(HEADS, generator=generator)
        y = torch.empty(HEADS, P)
        step[(HEADS,)](state, x, dt, A, B, C, y, P=P, N=N)
        full = twin.float() * torch.exp(A * dt)[:, None, None] + (dt[:, None] * x.float())[..., None] * B.float()
        worst = max(worst, float((y - full @ C.float()).abs().max()))
        twin = full.bfloat16()
    return {"state elements that differ": int((state != twin).sum()), "of": state.numel(), "worst output": worst}
