"""Mamba-2 speculative decode without a ring: the state after every token is saved, and one of them is restored.

The arithmetic of a token is that of `step`, and a state is rounded to its stored format after every token, so that what is kept has the
bits of plain decode.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..gates import gated, step_size
from ..masks import load, store
from ..pool import Pool
from ..rows import MAX_WINDOW, check_rows, span
from .configs import StepConfig, step_config
from .inputs import Inputs, check, limits

__all__ = ["restore", "verify_saving"]


@triton.jit
def verify_saving_kernel(
    state, saved, slots, starts, x, dt, B, C, z, A, dt_bias, D, out, x_row, dt_row, B_row, C_row, z_row, out_row,
    H: tl.constexpr, P: tl.constexpr, N: tl.constexpr, G: tl.constexpr, COLUMNS: tl.constexpr, WINDOW: tl.constexpr,
    SOFTPLUS: tl.constexpr, SKIP_ROWS: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, TILE: tl.constexpr,
):
    """Program: TILE rows of one head of one row of the batch, token after token."""
    TILES: tl.constexpr = (P + TILE - 1) // TILE
    WHOLE: tl.constexpr = P % TILE == 0
    pid = tl.program_id(0)
    p = (pid % TILES) * TILE + tl.arange(0, TILE)
    n = tl.arange(0, COLUMNS)
    head = (pid // TILES) % H
    row = pid // TILES // H
    slot = tl.load(slots + row).to(tl.int64)
    start, length = span(starts, row, WINDOW)
    if (slot < 0) | (length == 0):
        return
    inside = (p < P)[:, None] & (n < N)[None, :]
    whole: tl.constexpr = WHOLE and N == COLUMNS
    S = load(state + (slot * H + head) * (P * N) + p[:, None] * N + n[None, :], inside, whole).to(tl.float32)
    group = head // (H // G)
    bias = tl.load(dt_bias + head) if dt_bias is not None else None
    for token in range(length):
        at = start.to(tl.int64) + token
        Bn = load(B + at * B_row + group * N + n, n < N, N == COLUMNS).to(tl.float32)
        Cn = load(C + at * C_row + group * N + n, n < N, N == COLUMNS).to(tl.float32)
        xp = load(x + at * x_row + head * P + p, p < P, WHOLE).to(tl.float32)
        size = step_size(tl.load(dt + at * dt_row + head), bias, SOFTPLUS, LOW, HIGH)
        S = tl.exp(tl.load(A + head) * size) * S + (size * xp)[:, None] * Bn[None, :]
        rounded = S.to(saved.dtype.element_ty)
        store(saved + ((slot * WINDOW + token) * H + head) * (P * N) + p[:, None] * N + n[None, :], rounded, inside, whole)
        y = tl.sum(S * Cn[None, :], 1)
        S = rounded.to(tl.float32)
        if D is not None:
            if SKIP_ROWS:
                y += load(D + head * P + p, p < P, WHOLE) * xp
            else:
                y += tl.load(D + head) * xp
        if z is not None:
            y = gated(y, load(z + at * z_row + head * P + p, p < P, WHOLE))
        store(out + at * out_row + head * P + p, y.to(out.dtype.element_ty), p < P, WHOLE)


@triton.jit
def restore_kernel(state, saved, slots, starts, counts, SIZE: tl.constexpr, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    """Program: BLOCK elements of the state of one row of the batch, SIZE in all."""
    PARTS: tl.constexpr = (SIZE + BLOCK - 1) // BLOCK
    pid = tl.program_id(0)
    row = pid // PARTS
    slot = tl.load(slots + row).to(tl.int64)
    _, length = span(starts, row, WINDOW)
    count = tl.load(counts + row)
    count = tl.where(count > length, length, count)
    if (slot < 0) | (count <= 0):
        return
    i = (pid % PARTS) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.load(saved + (slot * WINDOW + count - 1) * SIZE + i, mask=i < SIZE)
    tl.store(state + slot * SIZE + i, kept, mask=i < SIZE)


def _check_saved(pool: Pool, saved: Tensor) -> int:
    """The window of `saved`."""
    window: int = saved.shape[1] if saved.dim() == 5 else 0
    shape = (pool.slots, window, *pool.state.shape[1:])
    if tuple(saved.shape) != shape or saved.dtype != pool.state.dtype or not saved.is_contiguous() or saved.device != pool.state.device:
        raise ValueError(f"saved must be contiguous {pool.state.dtype} [{pool.slots}, window, {', '.join(map(str, shape[2:]))}] on "
                         f"{pool.state.device}, got {saved.dtype} {list(saved.shape)}")
    if not 1 <= window <= MAX_WINDOW:
        raise ValueError(f"saved must have room for 1 to {MAX_WINDOW} states a slot, got {window}")
    return window


def verify_saving(
    pool: Pool, saved: Tensor, slots: Tensor, starts: Tensor, *, x: Tensor, dt: Tensor, B: Tensor, C: Tensor, A: Tensor,
    dt_bias: Tensor | None = None, D: Tensor | None = None, z: Tensor | None = None, softplus: bool = True,
    dt_limits: tuple[float, float] | None = None, out: Tensor | None = None, config: StepConfig | None = None,
) -> Tensor:
    """Several tokens for each row: write the outputs at all of them and save the state after each. The pool is left as it is.

    saved: [slots, window, heads, head_dim, state_dim] in the pool's dtype; saved[slot, i] is written for the row's token i. slots, starts:
    as in verify; pads and rows without tokens touch nothing. The other arguments: see Inputs, with tokens for rows. config: the launch
    configuration of step; None takes its measured one. One launch, no synchronisation; outputs and saved states have the bits that `step`
    would give token by token. Raises ValueError naming the argument.
    """
    check_rows(slots, starts)
    window = _check_saved(pool, saved)
    inputs = Inputs(x=x, dt=dt, B=B, C=C, A=A, dt_bias=dt_bias, D=D, z=z)
    low, high = limits(dt_limits)
    out = check(pool, slots, inputs, out, tokens=x.shape[0])
    g, rows = pool.geometry, slots.shape[0]
    if rows == 0 or x.shape[0] == 0:
        return out
    config = config or step_config(g, state=pool.state.dtype, rows=rows)
    verify_saving_kernel[(rows * g.heads * triton.cdiv(g.head_dim, config.tile),)](
        pool.state, saved, slots, starts, x, dt, B, C, z, A, dt_bias, D, out,
        x.stride(0), dt.stride(0), B.stride(0), C.stride(0), 0 if z is None else z.stride(0), out.stride(0),
        H=g.heads, P=g.head_dim, N=g.state_dim, G=g.groups, COLUMNS=g.columns, WINDOW=window, SOFTPLUS=softplus,
        SKIP_ROWS=D is not None and D.dim() == 2, LOW=low, HIGH=high, TILE=config.tile, num_warps=1,
    )
    return out


def restore(pool: Pool, saved: Tensor, slots: Tensor, starts: Tensor, counts: Tensor) -> None:
    """Make the state after the first counts[row] tokens of every row the state of its slot; 0 leaves it as it was before the row.

    saved, slots, starts: as verify_saving had them. counts: int32 [rows], at most the length of the row (a larger one is taken for it).
    One launch, no synchronisation. Raises ValueError naming the argument.
    """
    check_rows(slots, starts)
    window, rows = _check_saved(pool, saved), slots.shape[0]
    if counts.dtype != torch.int32 or tuple(counts.shape) != (rows,) or (rows > 1 and counts.stride(0) != 1):
        raise ValueError(f"counts must be contiguous int32 [{rows}], got {counts.dtype} {list(counts.shape)}")
    if rows:
        size = pool.state[0].numel()
        restore_kernel[(rows * triton.cdiv(size, 1024),)](
            pool.state, saved, slots, starts, counts, SIZE=size, WINDOW=window, BLOCK=1024, num_warps=4
        )
