"""The state of a slot at a prefix of its ring, written as the checkpoint of another slot."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..masks import load
from ..pool import Pool
from .configs import verify_config
from .tiles import fold
from .verify import turning
from .window import committed, committed_sizes, history_weights, ring_row

__all__ = ["materialise"]


@triton.jit
def materialise_kernel(
    state, x_ring, dt_ring, B_ring, origins, sources, prefixes, targets, A,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, RING: tl.constexpr, TOKENS: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr,
):
    """Program: ROWS rows of one head, of one pair of slots, TILE a turn."""
    PARTS: tl.constexpr = (P + ROWS - 1) // ROWS
    pid = tl.program_id(0)
    p0 = (pid % PARTS) * ROWS
    head = (pid // PARTS) % H
    pair = pid // PARTS // H
    source = tl.load(sources + pair).to(tl.int64)
    target = tl.load(targets + pair).to(tl.int64)
    if (source < 0) | (target < 0):
        return
    count = tl.load(prefixes + pair)
    count = tl.where(count < 0, 0, tl.where(count > RING, RING, count))
    origin = tl.load(origins + source)
    token = RING - 1 - tl.arange(0, TOKENS)
    taken = (token >= 0) & (token < count)
    place = ring_row(token, origin, RING)
    dts = dt_ring + (source * H + head) * RING
    a = tl.load(A + head)
    size = committed_sizes(dts, token, count, origin, RING)
    younger = committed_sizes(dts, token + 1, count, origin, RING)
    weight, decay = history_weights(size, younger, token, count, a)
    n = tl.arange(0, COLUMNS)
    group = head // (H // G)
    Bs = committed(B_ring + (source * G + group) * (RING * N) + place[:, None] * N + n[None, :], taken, n < N)
    WHOLE: tl.constexpr = P % ROWS == 0
    for turn in tl.range(0, ROWS // TILE, num_stages=1):
        r = turn * TILE + tl.arange(0, TILE)
        inside = p0 + r < P
        at = state + ((source * H + head) * P + p0) * N + r[:, None] * N
        to = state + ((target * H + head) * P + p0) * N + r[:, None] * N
        tile = load(at + n[None, :], inside[:, None] & (n < N)[None, :], WHOLE and N == COLUMNS)
        xs = committed(x_ring + (source * H + head) * (RING * P) + p0 + place[:, None] * P + r[None, :], taken, inside)
        fold(to, inside[:, None], tile, xs, Bs, weight, decay, N, COLUMNS, WHOLE)


def materialise(pool: Pool, sources: Tensor, prefixes: Tensor, targets: Tensor, *, A: Tensor) -> None:
    """Write the state that slots `sources` have after the first `prefixes` tokens of their rings as the states of slots `targets`.

    sources, targets: int32 or int64 [pairs], targets distinct and none of them a source; a pair with a slot < 0 is a pad. prefixes: int32
    [pairs], counted from the checkpoint as it lies: at most the cursor and, until the next forward, the tokens of the last row behind it,
    also those that were taken back. A: as in Inputs. Rings and cursors are left alone: cursors.reset(...) starts the target's.
    One launch, no synchronisation. Raises ValueError naming the argument.
    """
    ring = turning(pool)
    g, device = pool.geometry, pool.state.device
    pairs = sources.shape[0] if sources.dim() == 1 else -1
    for name, value, dtypes in (("sources", sources, (torch.int32, torch.int64)), ("targets", targets, (torch.int32, torch.int64)),
                                ("prefixes", prefixes, (torch.int32,))):
        if value.dtype not in dtypes or tuple(value.shape) != (pairs,) or (pairs > 1 and value.stride(0) != 1) or value.device != device:
            wanted = " or ".join(str(dtype) for dtype in dtypes)
            raise ValueError(f"{name} must be contiguous {wanted} [pairs] on {device}, got {value.dtype} {list(value.shape)}")
    if A.dtype != torch.float32 or tuple(A.shape) != (g.heads,) or not A.is_contiguous() or A.device != device:
        raise ValueError(f"A must be contiguous float32 [{g.heads}] on {device}, got {A.dtype} {list(A.shape)}")
    if pairs == 0:
        return
    config = verify_config(g, rows=pairs)
    rows = ring.capacity + ring.window
    materialise_kernel[(pairs * g.heads * triton.cdiv(g.head_dim, config.rows),)](
        pool.state, ring.x, ring.dt, ring.B, ring.origin, sources, prefixes, targets, A,
        H=g.heads, P=g.head_dim, N=g.state_dim, G=g.groups, COLUMNS=g.columns, RING=rows,
        TOKENS=max(16, triton.next_power_of_2(rows)), ROWS=config.rows, TILE=config.tile, num_warps=config.warps,
    )
