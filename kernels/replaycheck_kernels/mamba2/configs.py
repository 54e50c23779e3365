"""Launch configurations, measured on one H200.

A configuration says which program computes an element. What decides the order of its sums (`matrix`, `width`, `slice`, and `tile` where
sums run on fused multiply-adds) is fixed by the build; what is left does not change a bit, so the batch size may choose it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..pool import Geometry

__all__ = ["ReplayConfig", "StepConfig", "VerifyConfig", "replay_config", "step_config", "verify_config", "walk_length"]

_LANES = 32


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """tile: rows of the head dim a program, a power of two."""

    tile: int


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """How a replay launch is cut up; every program is one warp.

    matrix: products with the state run on the matrix unit (bf16 state and activations), else on fused multiply-adds. heads: heads of one
    group a program walks. width: height of its tiles of per-head values, at least `heads`. rows: rows of the head dim it walks, the next
    multiple of 16 from head_dim on, or a power of two. tile, fold_tile: powers of two that divide `rows`, the rows a turn takes on ordinary
    and on folding steps. stages, fold_stages: depth of the loads' pipeline. slice: columns of the state that lie side by side in a warp.
    registers: a lane may use, None for any.
    """

    matrix: bool
    heads: int
    width: int
    rows: int
    tile: int
    fold_tile: int
    stages: int
    fold_stages: int
    slice: int
    registers: int | None = None


@dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """rows: of the head dim a program, a multiple of `tile`. tile: rows a turn, a power of two of at least 16. warps: of a program."""

    rows: int
    tile: int = 16
    warps: int = 4


def _tile(rows: int, wanted: int) -> int:
    """The largest power of two that divides `rows` and is at most `wanted`."""
    return min(rows & -rows, wanted)


def walk_length(geometry: Geometry) -> int:
    """`rows` of a program that walks whole heads: head_dim, or the next multiple of 16."""
    return -(-geometry.head_dim // 16) * 16


def step_config(geometry: Geometry, *, state: torch.dtype, rows: int) -> StepConfig:
    """The configuration of a build for a batch of `rows`."""
    few = rows * geometry.heads <= 256
    if state == torch.float32:
        wanted = 4 if few else 8
    else:
        wanted = 8 if few else 16
    # a tile that leaves lanes without a whole 16-byte load is spread over them, and summed, in another way than a larger one
    whole = _LANES * (16 // state.itemsize) // geometry.columns
    return StepConfig(tile=max(wanted, whole))


def replay_config(geometry: Geometry, *, state: torch.dtype, activation: torch.dtype, rows: int) -> ReplayConfig:
    """The configuration of a build for a batch of `rows`."""
    work = rows * geometry.heads
    if state == activation == torch.bfloat16:
        return _matrix_config(geometry, work)
    # sums change their order with the length of the walk where activations are wide, or where its last tile is part of one: such builds
    # take one tile a program, always
    steady = activation == torch.bfloat16 and geometry.head_dim % 16 == 0
    walked = walk_length(geometry) if steady and work > 8192 else 16
    return ReplayConfig(
        matrix=False, heads=1, width=1, rows=walked, tile=16, fold_tile=16, stages=3, fold_stages=1,
        slice=min(geometry.columns, 128 // state.itemsize), registers=168 if work <= 256 else None,
    )


def _matrix_config(geometry: Geometry, work: int) -> ReplayConfig:
    """Few programs with much to do when there is much work, many small ones when there is little."""
    width, whole = _tile(geometry.heads // geometry.groups, 2), walk_length(geometry)
    if work <= 256:
        heads, rows, tile, stages = 1, 16, 16, 2
    elif work <= 1024:
        heads, rows, tile, stages = 1, whole, 32, 2
    elif work <= 4096:
        heads, rows, tile, stages = width, whole, 32, 2
    elif work <= 8192:
        heads, rows, tile, stages = width, whole, 64, 3
    else:
        heads, rows, tile, stages = width, whole, 64, 2
    return ReplayConfig(
        matrix=True, heads=heads, width=width, rows=rows, tile=_tile(rows, tile), fold_tile=16, stages=stages, fold_stages=3,
        slice=geometry.columns,
    )


def verify_config(geometry: Geometry, *, rows: int) -> VerifyConfig:
    """The configuration of a build for a batch of `rows`: whole heads where there are many. Not tuned yet, and the same tile always."""
    whole = geometry.head_dim % 16 == 0 and rows * geometry.heads > 1024
    return VerifyConfig(rows=walk_length(geometry) if whole else 16)
