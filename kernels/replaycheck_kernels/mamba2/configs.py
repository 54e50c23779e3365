"""Launch configurations, measured on one H200.

A configuration says which program computes an element. What decides the order of its sums (heads, slice and, where sums run on fused
multiply-adds, tile) is fixed by the build; what is left (rows, stages, and the tile on the matrix unit) does not change a bit, so the
batch size may choose it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..pool import Geometry

__all__ = ["ReplayConfig", "StepConfig", "replay_config", "step_config"]


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """tile: rows of the head dim a program. slice: columns of a slice. warps: of a program. registers: a lane may use, None for any."""

    tile: int
    slice: int
    warps: int
    registers: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """matrix: state products on the matrix unit. heads, rows: heads and rows of the head dim a program walks. slice: columns of a slice.

    tile, fold_tile: rows a turn of the walk takes on ordinary and on folding steps. stages, fold_stages: depth of its pipeline.
    registers: a lane may use, None for any.
    """

    matrix: bool
    heads: int
    rows: int
    tile: int
    slice: int
    stages: int
    fold_tile: int
    fold_stages: int
    registers: int | None = None


def _slice(geometry: Geometry, state: torch.dtype) -> int:
    """Columns in 128 bytes of state: eight lanes of 16 bytes share a row."""
    return min(geometry.state_dim, 128 // state.itemsize)


def _tile(rows: int, wanted: int) -> int:
    """The largest power of two that divides `rows` and is at most `wanted`."""
    return min(rows & -rows, wanted)


def step_config(geometry: Geometry, state: torch.dtype) -> StepConfig:
    """The configuration of a build."""
    return StepConfig(tile=16, slice=_slice(geometry, state), warps=1)


def replay_config(geometry: Geometry, *, state: torch.dtype, activation: torch.dtype, rows: int) -> ReplayConfig:
    """The configuration of a build for a batch of `rows`. The matrix unit reads bf16 states with bf16 activations."""
    height, work = geometry.head_dim, rows * geometry.heads
    if state == activation == torch.bfloat16:
        heads = _tile(geometry.heads // geometry.groups, 2)
        if work <= 256:
            return ReplayConfig(
                matrix=True, heads=heads, rows=16, tile=16, slice=geometry.state_dim, stages=2, fold_tile=16, fold_stages=3
            )
        tile = _tile(height, 32 if work <= 4096 else 64)
        return ReplayConfig(
            matrix=True, heads=heads, rows=height, tile=tile, slice=geometry.state_dim, stages=2, fold_tile=16, fold_stages=3
        )
    walked = 16 if work <= 2048 else height
    return ReplayConfig(
        matrix=False, heads=1, rows=walked, tile=16, slice=_slice(geometry, state), stages=3, fold_tile=16, fold_stages=2
    )
