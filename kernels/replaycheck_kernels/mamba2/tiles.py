"""Device functions on tiles of the state.

A tile is held as a tuple of slices, [rows, SLICE] each, so that a lane keeps several columns of one row: a row's sum then needs few
exchanges between lanes, always in the same order whatever the height of the tile. Columns past the state dim are zero and are not
stored; the last slice alone has them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..masks import load, store
from ..numerics import dot3, split3

__all__ = ["columns", "fold", "load_slices", "matrix_column", "outputs", "row_sums"]


@triton.jit
def load_slices(at, inside, N: tl.constexpr, SLICE: tl.constexpr, WHOLE: tl.constexpr):
    """The tile whose rows start at the pointers `at`, [rows, 1]. inside, WHOLE: of the rows."""
    slices = ()
    for k in tl.static_range((N + SLICE - 1) // SLICE):
        n = (k * SLICE + tl.arange(0, SLICE))[None, :]
        slices = slices + (load(at + n, inside & (n < N), WHOLE and (k + 1) * SLICE <= N),)
    return slices


@triton.jit
def columns(at, N: tl.constexpr, SLICE: tl.constexpr):
    """The vector [N] at `at` in fp32, cut as a tile's columns are."""
    slices = ()
    for k in tl.static_range((N + SLICE - 1) // SLICE):
        n = tl.arange(0, SLICE)
        slices = slices + (load(at + k * SLICE + n, k * SLICE + n < N, (k + 1) * SLICE <= N).to(tl.float32),)
    return slices


@triton.jit
def row_sums(tile, cols, SLICES: tl.constexpr):
    """Sum over n of tile[:, n] * cols[n] in fp32: over the slices first, then over the lanes."""
    total = tile[0].to(tl.float32) * cols[0][None, :]
    for k in tl.static_range(1, SLICES):
        total += tile[k].to(tl.float32) * cols[k][None, :]
    return tl.sum(total, 1)


@triton.jit
def matrix_column(v, N: tl.constexpr):
    """The bf16 vector [N] as column 0 of [N, 8], the narrowest operand of the matrix unit. N: a power of two."""
    return tl.where((tl.arange(0, 8) == 0)[None, :], v[:, None], tl.zeros([N, 8], tl.bfloat16))


@triton.jit
def three_columns(v, N: tl.constexpr):
    """The fp32 vector [N] as three bf16 columns of [N, 8] whose sum is exactly v."""
    column = tl.arange(0, 8)[None, :]
    high, middle, low = split3(v)
    rest = tl.where(column == 2, low[:, None], tl.zeros([N, 8], tl.bfloat16))
    return tl.where(column == 0, high[:, None], tl.where(column == 1, middle[:, None], rest))


@triton.jit
def outputs(tile, xs, C, score, decay, SLICES: tl.constexpr, AGES: tl.constexpr, MATRIX: tl.constexpr):
    """decay * (tile . C) + sum over ages of score * x, [rows] in fp32. xs: [AGES, rows].

    MATRIX: tile and xs are bf16 and C is a matrix_column: exact products on the matrix unit. Otherwise C is `columns`.
    """
    if MATRIX:
        y = tl.sum(tl.dot(tl.trans(xs), three_columns(score, AGES), decay * tl.dot(tile[0], C)), 1)
    else:
        y = decay * row_sums(tile, C, SLICES) + tl.sum(score[:, None] * xs.to(tl.float32), 0)
    return y


@triton.jit
def fold(at, inside, tile, xs, Bs, weight, decay, N: tl.constexpr, COLUMNS: tl.constexpr, WHOLE: tl.constexpr):
    """Store decay * tile + sum over ages of weight * x * B in the tile's format at the pointers `at`, [rows, 1]; returns it in fp32.

    tile: [rows, COLUMNS]; Bs: [AGES, COLUMNS]. inside, WHOLE: of the rows.
    """
    xw = tl.trans(weight[:, None] * xs.to(tl.float32))
    if Bs.dtype == tl.bfloat16:
        window = dot3(xw, Bs)
    else:
        window = tl.dot(xw, Bs.to(tl.float32), input_precision="ieee")
    folded = decay * tile.to(tl.float32) + window
    n = tl.arange(0, COLUMNS)[None, :]
    store(at + n, folded.to(tile.dtype), inside & (n < N), WHOLE and N == COLUMNS)
    return folded
