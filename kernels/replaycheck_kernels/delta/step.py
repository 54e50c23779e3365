"""The plain step of a gated delta rule: state read, advanced and written back for every token.

    S <- S e^g        d = beta (v - S k)        S <- S + d k^T        o = S q

g is one number a head (Gated DeltaNet) or one a key channel (Kimi Delta Attention). All arithmetic in fp32; o is read from the state before
it is rounded to its stored format.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..masks import load, store
from .configs import StepConfig, step_config
from .inputs import Form, Inputs, check
from .pool import DeltaPool
from .tokens import beta, log_decays, normed

__all__ = ["step"]


@triton.jit
def delta_step_kernel(
    state, slots, q, k, v, g, b, A_log, dt_bias, out, q_row, k_row, v_row, g_row, b_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
    GATE: tl.constexpr, LOWER: tl.constexpr, DOUBLED: tl.constexpr, NORM: tl.constexpr, EPS: tl.constexpr, SCALE: tl.constexpr,
    TILE: tl.constexpr,
):
    """Program: TILE rows of one value head of one row of the batch. COLUMNS: N or the next power of two."""
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
    key = normed(load(k + row * k_row + group * N + n, n < N, N == COLUMNS), NORM, EPS)
    query = normed(load(q + row * q_row + group * N + n, n < N, N == COLUMNS), NORM, EPS) * SCALE
    decay = tl.exp(log_decays(g + row * g_row, A_log, dt_bias, head, CHANNELS, N, COLUMNS, GATE, LOWER))
    value = load(v + row * v_row + head * P + p, p < P, WHOLE).to(tl.float32)
    S = S * decay[None, :]
    delta = beta(tl.load(b + row * b_row + head), DOUBLED) * (value - tl.sum(S * key[None, :], 1))
    S = S + delta[:, None] * key[None, :]
    store(at, S.to(state.dtype.element_ty), inside, WHOLE and N == COLUMNS)
    o = tl.sum(S * query[None, :], 1)
    store(out + row * out_row + head * P + p, o.to(out.dtype.element_ty), p < P, WHOLE)


def step(
    pool: DeltaPool, slots: Tensor, *, q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, A_log: Tensor | None = None,
    dt_bias: Tensor | None = None, form: Form, out: Tensor | None = None, config: StepConfig | None = None,
) -> Tensor:
    """One token for each row: advance the state of its slot in place and write its output.

    slots: int32 or int64 [rows], distinct; a slot < 0 is a pad: nothing is read, written or advanced for it and its output is left
    untouched. q, k, v, g, b, A_log, dt_bias: see Inputs. out: [rows, heads, head_dim], allocated in the dtype of v where None.
    config: launch configuration; None takes that of the build. One launch, no synchronisation.
    A row's bits depend on neither its neighbours, nor its place, nor its slot. Raises ValueError naming the argument.
    """
    out = check(pool, slots, Inputs(q=q, k=k, v=v, g=g, b=b, A_log=A_log, dt_bias=dt_bias), out)
    geometry, rows = pool.geometry, slots.shape[0]
    if rows == 0:
        return out
    config = config or step_config(geometry)
    delta_step_kernel[(rows * geometry.heads * triton.cdiv(geometry.head_dim, config.tile),)](
        pool.state, slots, q, k, v, g, b, A_log, dt_bias, out,
        q.stride(0), k.stride(0), v.stride(0), g.stride(0), b.stride(0), out.stride(0),
        H=geometry.heads, P=geometry.head_dim, N=geometry.state_dim, G=geometry.groups, COLUMNS=geometry.columns, CHANNELS=pool.channels,
        GATE=form.gate, LOWER=form.lower_bound, DOUBLED=form.doubled, NORM=form.norm, EPS=form.eps, SCALE=form.scale, TILE=config.tile,
        num_warps=config.warps,
    )
    return out
