"""Mamba-2 speculative decode on a ring: outputs of a row of tokens of which some may be taken back; taking back is a cursor move.

    y_s = e^{A sum dt} S0 C_s + sum_{j <= s} dt_j e^{A sum_{j < i <= s} dt_i} (B_j . C_s) x_j + D x_s

S0 is the checkpoint, read once; j runs over the committed ring rows and the row's own tokens. These are appended to the ring behind the
cursor, where nothing reads them unless `cursors.commit` moves it. A row whose whole window would not fit into `capacity` tokens folds
the committed ones, and no other, into the checkpoint; S0 is then what was folded, before it is rounded, and j runs over the row's own.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..cursors import folds
from ..gates import gated
from ..masks import load
from ..numerics import dot3, dot3_right
from ..pool import Pool, Ring
from ..rows import check_rows, span
from .configs import VerifyConfig, verify_config
from .inputs import Inputs, check, limits
from .tiles import fold
from .window import gather, history_weights, ring_row, sizes, window_weights

__all__ = ["turning", "verify"]


@triton.jit
def products(a, b):
    """a @ b in fp32 of two operands as they were received: exact products on the matrix unit where they are bf16."""
    if a.dtype == tl.bfloat16:
        result = tl.dot(a, b)
    else:
        result = tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return result


@triton.jit
def readout(tile, Cs):
    """tile @ Cs in fp32. tile: [rows, columns] of the state; Cs: [columns, queries] as received."""
    if Cs.dtype == tl.bfloat16:
        if tile.dtype == tl.bfloat16:
            result = tl.dot(tile, Cs)
        else:
            result = dot3(tile.to(tl.float32), Cs)
    else:
        result = tl.dot(tile.to(tl.float32), Cs.to(tl.float32), input_precision="ieee")
    return result


@triton.jit
def weighted(xs, score):
    """xs^T @ score in fp32. xs: [tokens, rows] as received; score: fp32 [tokens, queries]."""
    if xs.dtype == tl.bfloat16:
        result = dot3_right(tl.trans(xs), score)
    else:
        result = tl.dot(tl.trans(xs.to(tl.float32)), score, input_precision="ieee")
    return result


@triton.jit
def verify_kernel(
    state, x_ring, dt_ring, B_ring, cursor, origins, slots, starts, x, dt, B, C, z, A, dt_bias, D, out,
    x_row, dt_row, B_row, C_row, z_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, CAPACITY: tl.constexpr,
    WINDOW: tl.constexpr, TOKENS: tl.constexpr, QUERIES: tl.constexpr, SOFTPLUS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr,
    SKIP_ROWS: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):
    """Program: ROWS rows of one head, of one row of the batch, TILE a turn.

    TOKENS >= CAPACITY + WINDOW is the height of window tiles, QUERIES >= WINDOW the width of output tiles, COLUMNS >= N that of state
    tiles; all are powers of two. SKIP_ROWS: D is a number a row of a head, not a number a head.
    """
    RING: tl.constexpr = CAPACITY + WINDOW
    PARTS: tl.constexpr = (P + ROWS - 1) // ROWS
    pid = tl.program_id(0)
    p0 = (pid % PARTS) * ROWS
    head = (pid // PARTS) % H
    row = pid // PARTS // H
    slot = tl.load(slots + row).to(tl.int64)
    start, length = span(starts, row, WINDOW)
    if (slot < 0) | (length == 0):
        return
    first = start.to(tl.int64)
    used = tl.load(cursor + slot)
    origin = tl.load(origins + slot)
    token = used + (WINDOW - 1) - tl.arange(0, TOKENS)
    past = (token >= 0) & (token < used)
    fresh = (token >= used) & (token < used + length)
    place = ring_row(token, origin, RING)
    given = first + (token - used)
    ask = tl.arange(0, QUERIES)
    asked = ask < length

    bias = tl.load(dt_bias + head) if dt_bias is not None else None
    a = tl.load(A + head)
    dts = dt_ring + (slot * H + head) * RING
    size = sizes(dt + first * dt_row + head, dts, token, used, length, origin, dt_row, bias, RING, SOFTPLUS, LOW, HIGH)
    younger = sizes(dt + first * dt_row + head, dts, token + 1, used, length, origin, dt_row, bias, RING, SOFTPLUS, LOW, HIGH)
    folding = folds(used, length, CAPACITY, WINDOW)
    oldest = tl.where(folding, used, 0)
    weight, decay = window_weights(size, younger, token, oldest, used + ask, a)
    fold_weight, fold_decay = history_weights(size, younger, token, used, a)

    group = head // (H // G)
    n = tl.arange(0, COLUMNS)
    B_old = B_ring + (slot * G + group) * (RING * N) + place[:, None] * N + n[None, :]
    Bs = gather(B + given[:, None] * B_row + group * N + n[None, :], B_old, past, fresh, n < N)
    Cs = tl.trans(tl.load(C + (first + ask)[:, None] * C_row + group * N + n[None, :], mask=asked[:, None] & (n < N)[None, :], other=0.0))
    seen = (token[:, None] <= (used + ask)[None, :]) & (token >= oldest)[:, None]
    score = tl.where(seen, weight * products(Bs, Cs), 0.0)
    if D is not None and not SKIP_ROWS:
        score += tl.where(token[:, None] == (used + ask)[None, :], tl.load(D + head), 0.0)
    Bs_past = tl.where(past[:, None], Bs, tl.zeros_like(Bs))

    S0 = state + ((slot * H + head) * P + p0) * N
    x_old = x_ring + (slot * H + head) * (RING * P) + p0
    WHOLE: tl.constexpr = P % ROWS == 0
    for turn in tl.range(0, ROWS // TILE, num_stages=1):
        r = turn * TILE + tl.arange(0, TILE)
        inside = p0 + r < P
        at = S0 + r[:, None] * N
        tile = load(at + n[None, :], inside[:, None] & (n < N)[None, :], WHOLE and N == COLUMNS)
        xs = gather(x + given[:, None] * x_row + head * P + p0 + r[None, :], x_old + place[:, None] * P + r[None, :], past, fresh, inside)
        if folding:
            xs_past = tl.where(past[:, None], xs, tl.zeros_like(xs))
            read = readout(fold(at, inside[:, None], tile, xs_past, Bs_past, fold_weight, fold_decay, N, COLUMNS, WHOLE), Cs)
        else:
            read = readout(tile, Cs)
        y = decay[None, :] * read + weighted(xs, score)
        each = (first + ask)[None, :]
        written = inside[:, None] & asked[None, :]
        if SKIP_ROWS:
            own = tl.load(x + each * x_row + head * P + p0 + r[:, None], mask=written, other=0.0).to(tl.float32)
            y += load(D + head * P + p0 + r, inside, WHOLE)[:, None] * own
        if z is not None:
            y = gated(y, tl.load(z + each * z_row + head * P + p0 + r[:, None], mask=written, other=0.0))
        tl.store(out + each * out_row + head * P + p0 + r[:, None], y.to(out.dtype.element_ty), mask=written)
        tl.store(x_old + place[:, None] * P + r[None, :], xs, mask=fresh[:, None] & inside[None, :])
    if p0 == 0:
        tl.store(dts + place, size, mask=fresh)
        if head % (H // G) == 0:
            tl.store(B_old, Bs, mask=fresh[:, None] & (n < N)[None, :])


def turning(pool: Pool) -> Ring:
    """The ring of a pool for speculative decode. Raises ValueError where it has none."""
    if pool.ring is None or pool.ring.origin is None:
        raise ValueError("pool must have a ring that turns: allocate it with a capacity and a window")
    return pool.ring


def verify(
    pool: Pool, slots: Tensor, starts: Tensor, *, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, A: Tensor, dt_bias: Tensor | None = None,
    D: Tensor | None = None, z: Tensor | None = None, softplus: bool = True, dt_limits: tuple[float, float] | None = None,
    out: Tensor | None = None, config: VerifyConfig | None = None,
) -> Tensor:
    """Several tokens for each row, the certain one and drafts: write the outputs at all of them and keep the tokens in the ring.

    Cursors are read, not moved: call cursors.commit(...) once after the last layer, with how many tokens of each row stay.
    slots: int32 or int64 [rows], distinct; a slot < 0 is a pad: nothing is read, written or advanced for it, nor for a row without tokens,
    and its outputs are left untouched. starts: int32 [rows + 1], row r has tokens starts[r] .. starts[r + 1] - 1, at most the ring's
    window. The other arguments: see Inputs, with tokens for rows; x, B, C in the dtype of the ring. softplus: whether dt goes through it;
    dt_limits: two fp32 numbers that it is then held to. out: [tokens, heads, head_dim], allocated in the dtype of x where None.
    One launch, no synchronisation, so that a captured graph serves every length and folds where a fold is due.
    A row's bits depend on neither its neighbours, nor its place, nor its slot; those of an output not on the drafts after it, as long as
    these are finite. Raises ValueError naming the argument.
    """
    ring = turning(pool)
    check_rows(slots, starts)
    inputs = Inputs(x=x, dt=dt, B=B, C=C, A=A, dt_bias=dt_bias, D=D, z=z)
    low, high = limits(dt_limits)
    out = check(pool, slots, inputs, out, activation=ring.x.dtype, tokens=x.shape[0])
    g, rows = pool.geometry, slots.shape[0]
    if rows == 0 or x.shape[0] == 0:
        return out
    config = config or verify_config(g, rows=rows)
    verify_kernel[(rows * g.heads * triton.cdiv(g.head_dim, config.rows),)](
        pool.state, ring.x, ring.dt, ring.B, ring.cursor, ring.origin, slots, starts, x, dt, B, C, z, A, dt_bias, D, out,
        x.stride(0), dt.stride(0), B.stride(0), C.stride(0), 0 if z is None else z.stride(0), out.stride(0),
        H=g.heads, P=g.head_dim, N=g.state_dim, G=g.groups, COLUMNS=g.columns, CAPACITY=ring.capacity, WINDOW=ring.window,
        TOKENS=max(16, triton.next_power_of_2(ring.capacity + ring.window)), QUERIES=16, SOFTPLUS=softplus, LOW=low, HIGH=high,
        SKIP_ROWS=D is not None and D.dim() == 2, ROWS=config.rows, TILE=config.tile, num_warps=config.warps,
    )
    return out
