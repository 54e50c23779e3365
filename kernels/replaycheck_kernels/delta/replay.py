"""ReplaySSM decode of a gated delta rule: outputs from an older state and a ring of recent tokens; the state is stored once every
`capacity` tokens.

    d = beta (v - S k)        o = S q + (k . q) d        S = S0 e^{sum g} + sum_a d_a (e^{sum_{b<a} g_b} k_a)^T        (a: age, 1 = last)

S stands decayed to the current token and is not formed: its products with k and q are taken from S0 and from scores of keys. An ordinary
step appends k, d and g to the ring. A step that finds the ring full (cursor == capacity - 1) forms S and stores S + d k^T. Both are one
launch. Weights are exponentials of sums of log decays over the tokens in between, never differences of prefix sums nor ratios. All
arithmetic is fp32; keys and deltas stay in the format of the ring.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..masks import load, store
from .configs import ReplayConfig, replay_config
from .inputs import Form, Inputs, check
from .pool import DeltaPool, DeltaRing
from .tokens import beta, log_decays, normed
from .window import window

__all__ = ["replay"]


@triton.jit
def answer(
    S, keys, deltas, gates, used, now, key, query, value, share, p, N: tl.constexpr, P: tl.constexpr, COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr, EACH: tl.constexpr, TILE: tl.constexpr, FOLD: tl.constexpr,
):
    """Delta and output of the current token, [TILE]; decay of the older state S, [WIDTH]; what the ring adds to it, unless not FOLD."""
    predicted, read, folded, total = window(keys, deltas, gates, used, now, key, query, p, N, P, COLUMNS, WIDTH, EACH, TILE, FOLD)
    decay = tl.exp(total)
    delta = share * (value - (tl.sum(S * (decay * key)[None, :], 1) + predicted))
    o = tl.sum(S * (decay * query)[None, :], 1) + read + tl.sum(key * query, 0) * delta
    return delta, o, decay, folded


@triton.jit
def delta_replay_kernel(
    state, key_ring, delta_ring, gate_ring, cursor, slots, q, k, v, g, b, A_log, dt_bias, out, q_row, k_row, v_row, g_row, b_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
    CAPACITY: tl.constexpr, GATE: tl.constexpr, LOWER: tl.constexpr, DOUBLED: tl.constexpr, NORM: tl.constexpr, EPS: tl.constexpr,
    SCALE: tl.constexpr, TILE: tl.constexpr,
):
    """Program: TILE rows of one value head of one row of the batch. COLUMNS: N or the next power of two."""
    TILES: tl.constexpr = (P + TILE - 1) // TILE
    WHOLE: tl.constexpr = P % TILE == 0
    WIDTH: tl.constexpr = COLUMNS if CHANNELS else 1
    EACH: tl.constexpr = N if CHANNELS else 1
    pid = tl.program_id(0)
    p = (pid % TILES) * TILE + tl.arange(0, TILE)
    n = tl.arange(0, COLUMNS)
    head = (pid // TILES) % H
    row = (pid // TILES // H).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    if slot < 0:
        return
    used = tl.load(cursor + slot)
    at = state + (slot * H + head) * (P * N) + p[:, None] * N + n[None, :]
    inside = (p < P)[:, None] & (n < N)[None, :]
    S = load(at, inside, WHOLE and N == COLUMNS).to(tl.float32)
    group = head // (H // G)
    key = normed(load(k + row * k_row + group * N + n, n < N, N == COLUMNS), NORM, EPS).to(key_ring.dtype.element_ty)
    exact = key.to(tl.float32)
    query = normed(load(q + row * q_row + group * N + n, n < N, N == COLUMNS), NORM, EPS) * SCALE
    now = log_decays(g + row * g_row, A_log, dt_bias, head, CHANNELS, N, COLUMNS, GATE, LOWER)
    value = load(v + row * v_row + head * P + p, p < P, WHOLE).to(tl.float32)
    keys = key_ring + (slot * G + group) * (CAPACITY * N)
    deltas = delta_ring + (slot * H + head) * (CAPACITY * P)
    gates = gate_ring + (slot * H + head) * (CAPACITY * EACH)
    share = beta(tl.load(b + row * b_row + head), DOUBLED)
    if used == CAPACITY - 1:
        delta, o, decay, folded = answer(
            S, keys, deltas, gates, used, now, exact, query, value, share, p, N, P, COLUMNS, WIDTH, EACH, TILE, True
        )
        S = S * decay[None, :] + folded + delta[:, None] * exact[None, :]
        store(at, S.to(state.dtype.element_ty), inside, WHOLE and N == COLUMNS)
    else:
        delta, o, decay, nothing = answer(
            S, keys, deltas, gates, used, now, exact, query, value, share, p, N, P, COLUMNS, WIDTH, EACH, TILE, False
        )
        store(deltas + used * P + p, delta.to(delta_ring.dtype.element_ty), p < P, WHOLE)
        if pid % TILES == 0:
            c = tl.arange(0, WIDTH)
            store(gates + used * EACH + c, now, c < EACH, WIDTH == EACH)
            if head % (H // G) == 0:
                store(keys + used * N + n, key, n < N, N == COLUMNS)
    store(out + row * out_row + head * P + p, o.to(out.dtype.element_ty), p < P, WHOLE)


def replay(
    pool: DeltaPool, slots: Tensor, *, q: Tensor, k: Tensor, v: Tensor, g: Tensor, b: Tensor, A_log: Tensor | None = None,
    dt_bias: Tensor | None = None, form: Form, out: Tensor | None = None, config: ReplayConfig | None = None,
) -> Tensor:
    """One token for each row: write its output and keep the token, in the ring or folded with it into the state.

    Cursors are read, not moved: call cursors.advance(pool.ring.cursor, slots, capacity=...) once after the last layer.
    slots: int32 or int64 [rows], distinct; a slot < 0 is a pad: nothing is read, written or advanced for it and its output is left
    untouched. q, k, v, g, b, A_log, dt_bias: see Inputs. out: [rows, heads, head_dim], allocated in the dtype of v where None.
    config: launch configuration; None takes that of the build.
    One launch, no synchronisation, so that a captured graph serves ordinary and folding steps alike.
    A row's bits depend on neither its neighbours, nor its place, nor its slot. Raises ValueError naming the argument.
    """
    if pool.ring is None:
        raise ValueError("pool must have a ring: allocate it with a capacity")
    ring: DeltaRing = pool.ring
    out = check(pool, slots, Inputs(q=q, k=k, v=v, g=g, b=b, A_log=A_log, dt_bias=dt_bias), out)
    geometry, rows = pool.geometry, slots.shape[0]
    if rows == 0:
        return out
    config = config or replay_config(geometry)
    delta_replay_kernel[(rows * geometry.heads * triton.cdiv(geometry.head_dim, config.tile),)](
        pool.state, ring.key, ring.delta, ring.gate, ring.cursor, slots, q, k, v, g, b, A_log, dt_bias, out,
        q.stride(0), k.stride(0), v.stride(0), g.stride(0), b.stride(0), out.stride(0),
        H=geometry.heads, P=geometry.head_dim, N=geometry.state_dim, G=geometry.groups, COLUMNS=geometry.columns, CHANNELS=pool.channels,
        CAPACITY=ring.capacity, GATE=form.gate, LOWER=form.lower_bound, DOUBLED=form.doubled, NORM=form.norm, EPS=form.eps,
        SCALE=form.scale, TILE=config.tile, num_warps=config.warps,
    )
    return out
