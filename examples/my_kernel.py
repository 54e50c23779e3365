"""A Mamba-2 step kernel in Triton, and what makes it judgeable: its claims and one line.

    replaycheck validate examples/my_kernel.py:kernel
"""

import torch
import triton
import triton.language as tl

from replaycheck.contract.claims import Claims
from replaycheck.contract.simple import from_inplace
from replaycheck_reference.policy import Policy, Softplus


@triton.jit
def _step(
    pool, slots, x, dt, B, C, A, bias, D, out, heads_of_a_group, dim, width,
    pool_slot, pool_head, pool_dim, x_row, x_head, dt_row, B_row, B_group, C_row, C_group, out_row, out_head,
    DIM: tl.constexpr, WIDTH: tl.constexpr,
):
    row, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + row)
    if slot < 0:  # a pad: nothing is read and nothing written
        return
    m, n = tl.arange(0, DIM), tl.arange(0, WIDTH)
    group = head // heads_of_a_group
    S_at = pool + slot * pool_slot + head * pool_head + m[:, None] * pool_dim + n[None, :]
    inside = (m < dim)[:, None] & (n < width)[None, :]
    S = tl.load(S_at, mask=inside, other=0.0).to(tl.float32)
    x_ = tl.load(x + row * x_row + head * x_head + m, mask=m < dim, other=0.0).to(tl.float32)
    B_ = tl.load(B + row * B_row + group * B_group + n, mask=n < width, other=0.0).to(tl.float32)
    C_ = tl.load(C + row * C_row + group * C_group + n, mask=n < width, other=0.0).to(tl.float32)

    raw = tl.load(dt + row * dt_row + head).to(tl.float32)
    if bias is not None:
        raw += tl.load(bias + head)
    step = tl.where(raw >= 20.0, raw, tl.log(1.0 + tl.exp(raw)))
    S = tl.exp(step * tl.load(A + head)) * S + (step * x_)[:, None] * B_[None, :]
    y = tl.sum(S * C_[None, :], axis=1)
    if D is not None:
        y += tl.load(D + head) * x_

    tl.store(S_at, S.to(pool.dtype.element_ty), mask=inside)
    tl.store(out + row * out_row + head * out_head + m, y.to(out.dtype.element_ty), mask=m < dim)


def step(pool, slots, tokens, layer):
    """One token a row. pool: [slots, heads, head_dim, state_dim], updated in place. Returns [rows, heads, head_dim]."""
    x, out = tokens.x, torch.empty_like(tokens.x)
    _, heads, dim, width = pool.shape
    _step[(len(x), heads)](
        pool, slots, x, tokens.dt, tokens.B, tokens.C, layer.decay, layer.dt_bias, layer.D, out, heads // layer.groups, dim, width,
        *pool.stride()[:3], *x.stride()[:2], tokens.dt.stride(0), *tokens.B.stride()[:2], *tokens.C.stride()[:2], *out.stride()[:2],
        DIM=triton.next_power_of_2(dim), WIDTH=triton.next_power_of_2(width),
    )
    return out


claims = Claims(
    name="my kernel",
    policy=Policy(softplus=Softplus(form="naive")),  # log(1 + exp) as written: without this line it fails
    states=("fp32", "bf16"),
    activations=("bf16",),
    outputs=("bf16",),
    features=("bias", "skip", "groups"),
)
kernel = from_inplace(step, claims)
