"""The plain Mamba-2 step: state read, advanced and written back for every token.

    S <- e^{A dt} S + dt x B^T        y = S C + D x        y <- y z sigmoid(z)

All arithmetic in fp32; y is read from the state before it is rounded to its stored format.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..gates import gated, step_size
from ..masks import load, store
from ..pool import Pool
from .configs import StepConfig, step_config
from .inputs import Inputs, check, limits

__all__ = ["step"]


@triton.jit
def step_kernel(
    state, slots, x, dt, B, C, z, A, dt_bias, D, out, x_row, dt_row, B_row, C_row, z_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, SOFTPLUS: tl.constexpr,
    SKIP_ROWS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, TILE: tl.constexpr,
):
    """Program: TILE rows of one head of one row of the batch.

    COLUMNS: N or the next power of two. SKIP_ROWS: D is a number a row of a head, not a number a head.
    """
    TILES: tl.constexpr = (P + TILE - 1) // TILE
    WHOLE: tl.constexpr = P % TILE == 0
    pid = tl.program_id(0)
    p = (pid % TILES) * TILE + tl.arange(0, TILE)
    n = tl.arange(0, COLUMNS)
    head = (pid // TILES) % H
    row = (pid // TILES // H).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    if slot < 0:
        return
    at = state + (slot * H + head) * (P * N) + p[:, None] * N + n[None, :]
    inside = (p < P)[:, None] & (n < N)[None, :]
    S = load(at, inside, WHOLE and N == COLUMNS).to(tl.float32)
    group = head // (H // G)
    Bn = load(B + row * B_row + group * N + n, n < N, N == COLUMNS).to(tl.float32)
    Cn = load(C + row * C_row + group * N + n, n < N, N == COLUMNS).to(tl.float32)
    xp = load(x + row * x_row + head * P + p, p < P, WHOLE).to(tl.float32)
    bias = tl.load(dt_bias + head) if dt_bias is not None else None
    size = step_size(tl.load(dt + row * dt_row + head), bias, SOFTPLUS, LOW, HIGH)
    S = tl.exp(tl.load(A + head) * size) * S + (size * xp)[:, None] * Bn[None, :]
    store(at, S.to(state.dtype.element_ty), inside, WHOLE and N == COLUMNS)
    y = tl.sum(S * Cn[None, :], 1)
    if D is not None:
        if SKIP_ROWS:
            y += load(D + head * P + p, p < P, WHOLE) * xp
        else:
            y += tl.load(D + head) * xp
    if z is not None:
        y = gated(y, load(z + row * z_row + head * P + p, p < P, WHOLE))
    store(out + row * out_row + head * P + p, y.to(out.dtype.element_ty), p < P, WHOLE)


def step(
    pool: Pool, slots: Tensor, *, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, A: Tensor, dt_bias: Tensor | None = None,
    D: Tensor | None = None, z: Tensor | None = None, softplus: bool = True, dt_limits: tuple[float, float] | None = None,
    out: Tensor | None = None, config: StepConfig | None = None,
) -> Tensor:
    """One token for each row: advance the state of its slot in place and write its output.

    slots: int32 or int64 [rows], distinct; a slot < 0 is a pad: nothing is read, written or advanced for it and its output is left
    untouched. The other arguments: see Inputs. softplus: whether dt goes through it; dt_limits: two fp32 numbers that it is then held to.
    out: [rows, heads, head_dim], allocated in the dtype of x where None.
    config: launch configuration; None takes the measured one. One launch, no synchronisation.
    A row's bits depend on neither its neighbours, nor its place, nor its slot. Raises ValueError naming the argument.
    """
    inputs = Inputs(x=x, dt=dt, B=B, C=C, A=A, dt_bias=dt_bias, D=D, z=z)
    low, high = limits(dt_limits)
    out = check(pool, slots, inputs, out)
    g, rows = pool.geometry, slots.shape[0]
    if rows == 0:
        return out
    config = config or step_config(g, state=pool.state.dtype, rows=rows)
    step_kernel[(rows * g.heads * triton.cdiv(g.head_dim, config.tile),)](
        pool.state, slots, x, dt, B, C, z, A, dt_bias, D, out,
        x.stride(0), dt.stride(0), B.stride(0), C.stride(0), 0 if z is None else z.stride(0), out.stride(0),
        H=g.heads, P=g.head_dim, N=g.state_dim, G=g.groups, COLUMNS=g.columns, SOFTPLUS=softplus,
        SKIP_ROWS=D is not None and D.dim() == 2, LOW=low, HIGH=high, TILE=config.tile,
        num_warps=1,
    )
    return out
