"""Mamba-2 ReplaySSM decode: outputs from an older state and a ring of recent tokens; the state is stored once every `capacity` tokens.

    y = e^{A sum dt} S0 C + sum_a dt_a e^{A sum_{b<a} dt_b} (B_a . C) x_a + D x_0        (a: age of a token in the window, 0 = now)

An ordinary step appends its token to the ring. A step that finds the ring full (cursor == capacity - 1) folds ring and token into the
state: S0 <- e^{A sum dt} S0 + sum_a dt_a e^{A sum_{b<a} dt_b} x_a B_a^T. Both are one launch. Weights are exponentials of sums of dt
over the tokens in between, never differences of prefix sums. All arithmetic is fp32: where activations are bf16, products may run on
the matrix unit, with the computed operand in three exact bf16 parts.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..gates import gated, step_size
from ..masks import load, store
from ..pool import Pool, Ring
from .configs import ReplayConfig, replay_config
from .inputs import Inputs, check, limits
from .tiles import columns, fold, load_slices, matrix_column, outputs

__all__ = ["replay"]


@triton.jit
def pick(v, index, WIDTH: tl.constexpr):
    """Row `index` of [WIDTH, m] (a sum with zeros: exact)."""
    if WIDTH == 1:
        row = tl.sum(v, 0)
    else:
        row = tl.sum(tl.where((tl.arange(0, WIDTH) == index)[:, None], v, 0.0), 0)
    return row


@triton.jit
def by_age(now, ring, used, distance, inside, AGES: tl.constexpr, WHOLE: tl.constexpr):
    """A window's rows by age, [AGES, columns], zero past the window: row 0 lies at `now`, row a is row `used - a` at `ring`.

    now, ring: pointers, [columns], zero where not `inside`; distance: of ring rows. Rows at and past the cursor `used` are not read.
    """
    age = tl.arange(0, AGES)[:, None]
    window = (age >= 1) & (age <= used)
    if not WHOLE:
        window = window & inside[None, :]
    old = tl.load(ring[None, :] + (used - age) * distance, mask=window, other=0.0)
    return tl.where(age == 0, load(now, inside, WHOLE)[None, :], old)


@triton.jit
def by_age_at_once(now, ring, used, distance, inside, AGES: tl.constexpr, WHOLE: tl.constexpr):
    """As by_age, by a single load, which the pipeline of a loop hands to the matrix unit without a stop in registers."""
    age = tl.arange(0, AGES)[:, None]
    at = tl.where(age == 0, now[None, :] + age * 0, ring[None, :] + (used - age) * distance)
    window = age <= used
    if not WHOLE:
        window = window & inside[None, :]
    return tl.load(at, mask=window, other=0.0)


@triton.jit
def weights(now, ring, used, a, AGES: tl.constexpr):
    """Weights of the window's tokens and decay of the state, fp32 [WIDTH, AGES] and [WIDTH, 1].

    now: dt of the current token, [WIDTH]; ring: pointers to rings of dt, [WIDTH, 1]; a: A, [WIDTH, 1]. The sum of dt over younger
    tokens is a running sum over ages, of the dt one age younger.
    """
    age = tl.arange(0, AGES)[None, :]
    window = age <= used
    dt = tl.load(ring + (used - age), mask=window & (age >= 1), other=0.0)
    dt = tl.where(age == 0, now[:, None], dt)
    younger = tl.load(ring + (used - age + 1), mask=window & (age >= 2), other=0.0)
    younger = tl.where(window & (age == 1), now[:, None], younger)
    weight = tl.where(window, dt * tl.exp(a * tl.cumsum(younger, 1)), 0.0)
    return weight, tl.exp(a * tl.sum(dt, 1, keep_dims=True))


@triton.jit
def walk(
    S0, x_now, x_ring, z, skip, out, C, Bs, score, weight, decay, used, left,
    P: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr, CAPACITY: tl.constexpr, AGES: tl.constexpr, MATRIX: tl.constexpr,
    FOLD: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr,
    SLICE: tl.constexpr,
):
    """Outputs of ROWS rows of HEADS heads, TILE rows a turn, and where FOLD their new state. Pointers stand at the first head and row.

    skip: D where it is a number a row, else None. left: rows from there to the end of the head; those past it are neither read nor written.
    """
    WHOLE: tl.constexpr = P % ROWS == 0
    r = tl.arange(0, TILE)
    for i in tl.range(0, HEADS * (ROWS // TILE), num_stages=STAGES):
        head = i // (ROWS // TILE)
        p = head * P + (i % (ROWS // TILE)) * TILE
        at = S0 + p * N + r[:, None] * N
        inside = (i % (ROWS // TILE)) * TILE + r < left
        tile = load_slices(at, inside[:, None], N, SLICE, WHOLE)
        past = x_ring + p + head * ((CAPACITY - 1) * P) + r
        if MATRIX:
            xs = by_age_at_once(x_now + p + r, past, used, P, inside, AGES, WHOLE)
        else:
            xs = by_age(x_now + p + r, past, used, P, inside, AGES, WHOLE)
        d = tl.sum(pick(decay, head, WIDTH), 0)
        y = outputs(tile, xs, C, pick(score, head, WIDTH), d, (N + SLICE - 1) // SLICE, AGES, MATRIX)
        if skip is not None:
            y += load(skip + p + r, inside, WHOLE) * load(x_now + p + r, inside, WHOLE).to(tl.float32)
        if z is not None:
            y = gated(y, load(z + p + r, inside, WHOLE))
        store(out + p + r, y.to(out.dtype.element_ty), inside, WHOLE)
        if FOLD:
            fold(at, inside[:, None], tile[0], xs, Bs, pick(weight, head, WIDTH), d, N, COLUMNS, WHOLE)


@triton.jit
def replay_kernel(
    state, x_ring, dt_ring, B_ring, cursor, slots, x, dt, B, C, z, A, dt_bias, D, out, x_row, dt_row, B_row, C_row, z_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, CAPACITY: tl.constexpr,
    AGES: tl.constexpr, SOFTPLUS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, SKIP_ROWS: tl.constexpr, MATRIX: tl.constexpr,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, FOLD_TILE: tl.constexpr, STAGES: tl.constexpr,
    FOLD_STAGES: tl.constexpr, SLICE: tl.constexpr,
):
    """Program: ROWS rows of HEADS heads of one group, of one row of the batch.

    AGES >= CAPACITY is the height of window tiles, COLUMNS >= N the width of state tiles; both are powers of two.
    SKIP_ROWS: D is a number a row of a head, not a number a head.
    """
    PARTS: tl.constexpr = (P + ROWS - 1) // ROWS
    pid = tl.program_id(0)
    p0 = (pid % PARTS) * ROWS
    head0 = (pid // PARTS) % (H // HEADS) * HEADS
    row = (pid // PARTS // (H // HEADS)).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    if slot < 0:
        return
    used = tl.load(cursor + slot)
    # at least WIDTH heads, the same ones again where there are fewer, so that one shape of tiles sums in one order
    heads = head0 + tl.arange(0, WIDTH) % HEADS
    group = head0 // (H // G)
    n = tl.arange(0, COLUMNS)
    B_now = B + row * B_row + group * N + n
    B_old = B_ring + (slot * G + group) * (CAPACITY * N) + n
    C += row * C_row + group * N
    Bs = by_age(B_now, B_old, used, N, n < N, AGES, N == COLUMNS)
    bias = tl.load(dt_bias + heads) if dt_bias is not None else None
    dt_now = step_size(tl.load(dt + row * dt_row + heads), bias, SOFTPLUS, LOW, HIGH)
    dts = dt_ring + (slot * H + heads) * CAPACITY
    weight, decay = weights(dt_now, dts[:, None], used, tl.load(A + heads)[:, None], AGES)
    if MATRIX:
        column = matrix_column(load(C + n, n < N, N == COLUMNS), COLUMNS)
        score = weight * tl.sum(tl.dot(Bs, column), 1)[None, :]
    else:
        score = weight * tl.sum(Bs.to(tl.float32) * load(C + n, n < N, N == COLUMNS).to(tl.float32)[None, :], 1)[None, :]
    if D is not None and not SKIP_ROWS:
        score += tl.where((tl.arange(0, AGES) == 0)[None, :], tl.load(D + heads)[:, None], 0.0)

    S0 = state + ((slot * H + head0) * P + p0) * N
    x_now = x + row * x_row + head0 * P + p0
    x_old = x_ring + (slot * H + head0) * (CAPACITY * P) + p0
    zs = z + row * z_row + head0 * P + p0 if z is not None else None
    skip = D + head0 * P + p0 if SKIP_ROWS else None
    outs = out + row * out_row + head0 * P + p0
    if used == CAPACITY - 1:
        walk(S0, x_now, x_old, zs, skip, outs, column if MATRIX else columns(C, N, COLUMNS), Bs, score, weight, decay, used, P - p0,
             P, N, COLUMNS, CAPACITY, AGES, MATRIX, True, HEADS, WIDTH, ROWS, FOLD_TILE, FOLD_STAGES, COLUMNS)
    else:
        walk(S0, x_now, x_old, zs, skip, outs, column if MATRIX else columns(C, N, SLICE), Bs, score, weight, decay, used, P - p0,
             P, N, COLUMNS, CAPACITY, AGES, MATRIX, False, HEADS, WIDTH, ROWS, TILE, STAGES, SLICE)
        WIDE: tl.constexpr = ROWS & -ROWS
        each = tl.arange(0, HEADS)[:, None] * P
        for k in tl.static_range(ROWS // WIDE):
            p = k * WIDE + tl.arange(0, WIDE)[None, :]
            inside = (p < P - p0) & (each >= 0)
            store(x_old + each * CAPACITY + used * P + p, load(x_now + each + p, inside, P % ROWS == 0), inside, P % ROWS == 0)
        if p0 == 0:
            tl.store(dts + used, dt_now)
            if head0 % (H // G) == 0:
                store(B_old + used * N, load(B_now, n < N, N == COLUMNS), n < N, N == COLUMNS)


def replay(
    pool: Pool, slots: Tensor, *, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, A: Tensor, dt_bias: Tensor | None = None,
    D: Tensor | None = None, z: Tensor | None = None, softplus: bool = True, dt_limits: tuple[float, float] | None = None,
    out: Tensor | None = None, config: ReplayConfig | None = None,
) -> Tensor:
    """One token for each row: write its output and keep the token, in the ring or folded with it into the state.

    Cursors are read, not moved: call cursors.advance(pool.ring.cursor, slots, capacity=...) once after the last layer.
    slots: int32 or int64 [rows], distinct; a slot < 0 is a pad: nothing is read, written or advanced for it and its output is left
    untouched. The other arguments: see Inputs; x, B, C in the dtype of the ring. softplus: whether dt goes through it; dt_limits: two fp32
    numbers that it is then held to. out: [rows, heads, head_dim], allocated in the dtype
    of x where None. config: launch configuration; None takes the measured one.
    One launch, no synchronisation, so that a captured graph serves ordinary and folding steps alike.
    A row's bits depend on neither its neighbours, nor its place, nor its slot. Raises ValueError naming the argument.
    """
    if pool.ring is None:
        raise ValueError("pool must have a ring: allocate it with a capacity")
    ring: Ring = pool.ring
    inputs = Inputs(x=x, dt=dt, B=B, C=C, A=A, dt_bias=dt_bias, D=D, z=z)
    low, high = limits(dt_limits)
    out = check(pool, slots, inputs, out, activation=ring.x.dtype)
    g, rows = pool.geometry, slots.shape[0]
    if rows == 0:
        return out
    config = config or replay_config(g, state=pool.state.dtype, activation=x.dtype, rows=rows)
    replay_kernel[(rows * (g.heads // config.heads) * triton.cdiv(g.head_dim, config.rows),)](
        pool.state, ring.x, ring.dt, ring.B, ring.cursor, slots, x, dt, B, C, z, A, dt_bias, D, out,
        x.stride(0), dt.stride(0), B.stride(0), C.stride(0), 0 if z is None else z.stride(0), out.stride(0),
        H=g.heads, P=g.head_dim, N=g.state_dim, G=g.groups, COLUMNS=g.columns, CAPACITY=ring.capacity,
        AGES=max(16, triton.next_power_of_2(ring.capacity)), SOFTPLUS=softplus,
        SKIP_ROWS=D is not None and D.dim() == 2, LOW=low, HIGH=high, MATRIX=config.matrix, HEADS=config.heads,
        WIDTH=config.width, ROWS=config.rows, TILE=config.tile, FOLD_TILE=config.fold_tile, STAGES=config.stages,
        FOLD_STAGES=config.fold_stages, SLICE=config.slice,
        num_warps=1, maxnreg=config.registers,
    )
    return out
