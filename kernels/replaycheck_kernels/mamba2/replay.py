"""Mamba-2 ReplaySSM decode: outputs from an older state and a ring of recent tokens; the state is stored once every `capacity` tokens.

    y = e^{A sum dt} S0 C + sum_a dt_a e^{A sum_{b<a} dt_b} (B_a . C) x_a + D x_0        (a: age of a token in the window, 0 = now)

An ordinary step appends its token to the ring. A step that finds the ring full (cursor == capacity - 1) folds ring and token into the
state: S0 <- e^{A sum dt} S0 + sum_a dt_a e^{A sum_{b<a} dt_b} x_a B_a^T. Both are one launch. Weights are exponentials of sums of dt
over the tokens in between, never differences of prefix sums. All arithmetic is fp32: where activations are bf16, products run on the
matrix unit with the computed operand in three exact bf16 parts.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..gates import gated, step_size
from ..numerics import dot3
from ..pool import Pool, Ring
from .configs import replay_config
from .inputs import Inputs, check

__all__ = ["replay"]


@triton.jit
def pick(v, index, HEADS: tl.constexpr):
    """Row `index` of [HEADS, m] (a sum with zeros: exact)."""
    return tl.sum(tl.where((tl.arange(0, HEADS) == index)[:, None], v, 0.0), 0)


@triton.jit
def window_x(ring, now, age, used, P: tl.constexpr, p):
    """x of the window by age, [AGES, TILE], zero past the window: row 0 is the token `now`, row a the ring row `used - a`."""
    past = (age >= 1) & (age <= used)
    old = tl.load(ring + (used - age)[:, None] * P + p[None, :], mask=past[:, None], other=0.0)
    return tl.where((age == 0)[:, None], tl.load(now + p)[None, :], old)


@triton.jit
def finish(y, z, out, p):
    """Gate where there is a z, round and store."""
    if z is not None:
        y = gated(y, tl.load(z + p))
    tl.store(out + p, y.to(out.dtype.element_ty))


@triton.jit
def read_tiles(
    S0, ring, now, z, out, C, score, decay, age, used, head0, p0,
    P: tl.constexpr, N: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, SLICE: tl.constexpr,
    CAPACITY: tl.constexpr, STAGES: tl.constexpr,
):
    """Ordinary step: outputs of ROWS rows of HEADS heads from S0 and the window. score: [HEADS, AGES]; decay: [HEADS, 1]."""
    TILES: tl.constexpr = ROWS // TILE
    n = tl.arange(0, N // SLICE)[:, None, None] * SLICE + tl.arange(0, SLICE)[None, None, :]
    Cn = tl.load(C + n).to(tl.float32)
    for i in tl.range(0, HEADS * TILES, num_stages=STAGES):
        head = i // TILES
        p = p0 + (i % TILES) * TILE + tl.arange(0, TILE)
        S = tl.load(S0 + head * (P * N) + p[None, :, None] * N + n).to(tl.float32)
        xs = window_x(ring + head * (CAPACITY * P), now + head * P, age, used, P, p).to(tl.float32)
        y = tl.sum(pick(decay, head, HEADS), 0) * tl.sum(tl.sum(S * Cn, 0), 1)
        y += tl.sum(pick(score, head, HEADS)[:, None] * xs, 0)
        finish(y, z + head * P if z is not None else None, out + head * P, p)


@triton.jit
def fold_tiles(
    S0, ring, now, z, out, Bs, C, score, weight, decay, age, used, head0, p0,
    P: tl.constexpr, N: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
    CAPACITY: tl.constexpr, STAGES: tl.constexpr,
):
    """Folding step: outputs as in read_tiles, then the window is folded into S0. weight: [HEADS, AGES]; Bs: [AGES, N]."""
    TILES: tl.constexpr = ROWS // TILE
    n = tl.arange(0, N)
    Cn = tl.load(C + n).to(tl.float32)
    for i in tl.range(0, HEADS * TILES, num_stages=STAGES):
        head = i // TILES
        p = p0 + (i % TILES) * TILE + tl.arange(0, TILE)
        at = S0 + head * (P * N) + p[:, None] * N + n[None, :]
        S = tl.load(at).to(tl.float32)
        xs = window_x(ring + head * (CAPACITY * P), now + head * P, age, used, P, p).to(tl.float32)
        d = tl.sum(pick(decay, head, HEADS), 0)
        y = d * tl.sum(S * Cn[None, :], 1)
        y += tl.sum(pick(score, head, HEADS)[:, None] * xs, 0)
        finish(y, z + head * P if z is not None else None, out + head * P, p)
        xw = tl.trans(pick(weight, head, HEADS)[:, None] * xs)
        if Bs.dtype == tl.bfloat16:
            S = dot3(xw, Bs, d * S)
        else:
            S = tl.dot(xw, Bs.to(tl.float32), d * S, input_precision="ieee")
        tl.store(at, S.to(S0.dtype.element_ty))


@triton.jit
def replay_kernel(
    state, x_ring, dt_ring, B_ring, cursor, slots, x, dt, B, C, z, A, dt_bias, D, out, x_row, dt_row, B_row, C_row, z_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, CAPACITY: tl.constexpr, AGES: tl.constexpr,
    SOFTPLUS: tl.constexpr, HEADS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, SLICE: tl.constexpr, STAGES: tl.constexpr,
    FOLD_TILE: tl.constexpr, FOLD_STAGES: tl.constexpr,
):
    """Program: ROWS rows of HEADS heads of one group, of one row of the batch. AGES >= CAPACITY is the height of window tiles."""
    pid = tl.program_id(0)
    p0 = (pid % (P // ROWS)) * ROWS
    head0 = (pid // (P // ROWS)) % (H // HEADS) * HEADS
    row = (pid // (P // ROWS) // (H // HEADS)).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    if slot < 0:
        return
    used = tl.load(cursor + slot)
    group = head0 // (H // G)
    n = tl.arange(0, N)
    age = tl.arange(0, AGES)
    heads = head0 + tl.arange(0, HEADS)
    past = (age >= 1) & (age <= used)
    now_age = (age == 0)[None, :]

    # dt by age, and the same one age later: a running sum of the latter is the sum over all younger tokens
    dts = dt_ring + (slot * H + heads)[:, None] * CAPACITY
    size = tl.load(dts + (used - age)[None, :], mask=past[None, :], other=0.0)
    younger = tl.load(dts + (used - age + 1)[None, :], mask=(past & (age >= 2))[None, :], other=0.0)
    bias = tl.load(dt_bias + heads) if dt_bias is not None else None
    size_now = step_size(tl.load(dt + row * dt_row + heads), bias, SOFTPLUS)
    size = tl.where(now_age, size_now[:, None], size)
    younger = tl.where((age == 1)[None, :] & past[None, :], size_now[:, None], younger)
    a = tl.load(A + heads)[:, None]
    weight = tl.where(now_age | past[None, :], size * tl.exp(a * tl.cumsum(younger, 1)), 0.0)
    decay = tl.exp(a * tl.sum(size, 1, keep_dims=True))

    # B_a . C, shared by the heads of a group
    Bring = B_ring + (slot * G + group) * (CAPACITY * N)
    B_now = tl.load(B + row * B_row + group * N + n)
    Bs = tl.load(Bring + (used - age)[:, None] * N + n[None, :], mask=past[:, None], other=0.0)
    Bs = tl.where((age == 0)[:, None], B_now[None, :], Bs)
    C_now = C + row * C_row + group * N
    score = weight * tl.sum(Bs.to(tl.float32) * tl.load(C_now + n).to(tl.float32)[None, :], 1)[None, :]
    if D is not None:
        score += tl.where(now_age, tl.load(D + heads)[:, None], 0.0)

    S0 = state + (slot * H + head0) * (P * N)
    ring = x_ring + (slot * H + head0) * (CAPACITY * P)
    now = x + row * x_row + head0 * P
    zs = z + row * z_row + head0 * P if z is not None else None
    outs = out + row * out_row + head0 * P
    if used == CAPACITY - 1:
        fold_tiles(S0, ring, now, zs, outs, Bs, C_now, score, weight, decay, age, used, head0, p0,
                   P, N, HEADS, ROWS, FOLD_TILE, CAPACITY, FOLD_STAGES)
    else:
        read_tiles(S0, ring, now, zs, outs, C_now, score, decay, age, used, head0, p0,
                   P, N, HEADS, ROWS, TILE, SLICE, CAPACITY, STAGES)
        for i in range(HEADS * (ROWS // FOLD_TILE)):
            head = i // (ROWS // FOLD_TILE)
            p = p0 + (i % (ROWS // FOLD_TILE)) * FOLD_TILE + tl.arange(0, FOLD_TILE)
            tl.store(ring + head * (CAPACITY * P) + used * P + p, tl.load(now + head * P + p))
        if p0 == 0:
            tl.store(dt_ring + (slot * H + heads) * CAPACITY + used, size_now)
            if head0 % (H // G) == 0:
                tl.store(Bring + used * N + n, B_now)


def replay(
    pool: Pool, slots: Tensor, *, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, A: Tensor, dt_bias: Tensor | None = None,
    D: Tensor | None = None, z: Tensor | None = None, softplus: bool = True, out: Tensor | None = None,
) -> Tensor:
    """One token for each row: write its output and keep the token, in the ring or folded with it into the state.

    Cursors are read, not moved: call cursors.advance(pool.ring.cursor, slots, capacity=...) once after the last layer.
    slots: int32 or int64 [rows], distinct; a slot < 0 is a pad: nothing is read, written or advanced for it and its output is left
    untouched. The other arguments: see Inputs; x, B, C in the dtype of the ring. out: [rows, heads, head_dim], allocated in the dtype
    of x where None. One launch, no synchronisation, so that a captured graph serves ordinary and folding steps alike.
    A row's bits depend on neither its neighbours, nor its place, nor its slot. Raises ValueError naming the argument.
    """
    if pool.ring is None:
        raise ValueError("pool must have a ring: allocate it with a capacity")
    ring: Ring = pool.ring
    inputs = Inputs(x=x, dt=dt, B=B, C=C, A=A, dt_bias=dt_bias, D=D, z=z)
    out = check(pool, slots, inputs, out, activation=ring.x.dtype)
    g, rows = pool.geometry, slots.shape[0]
    if rows == 0:
        return out
    config = replay_config(g, pool.state.dtype, rows)
    replay_kernel[(rows * (g.heads // config.heads) * (g.head_dim // config.rows),)](
        pool.state, ring.x, ring.dt, ring.B, ring.cursor, slots, x, dt, B, C, z, A, dt_bias, D, out,
        x.stride(0), dt.stride(0), B.stride(0), C.stride(0), 0 if z is None else z.stride(0), out.stride(0),
        H=g.heads, P=g.head_dim, N=g.state_dim, G=g.groups, CAPACITY=ring.capacity, AGES=16 if ring.capacity <= 16 else 32,
        SOFTPLUS=softplus, HEADS=config.heads, ROWS=config.rows, TILE=config.tile, SLICE=config.slice, STAGES=config.stages,
        FOLD_TILE=config.fold_tile, FOLD_STAGES=config.fold_stages, num_warps=1,
    )
    return out
