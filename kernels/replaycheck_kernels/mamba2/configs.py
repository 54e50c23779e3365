"""Launch configurations, measured on one H200.

A configuration changes which program computes an element, never how: every program is one warp, a row of the state is always summed
in slices of SLICE columns (first over slices in a lane, then over the lanes of a slice), and windows are always summed over the same
tile of ages. So the batch size may choose the configuration without changing a bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..pool import Geometry

__all__ = ["ReplayConfig", "StepConfig", "replay_config", "step_config"]


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """tile: rows of the head dim a program. slice: columns a tile keeps in one lane group. warps: of a program."""

    tile: int
    slice: int
    warps: int


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """heads, rows: heads and rows of the head dim a program walks. tile, fold_tile: rows a turn of its loop takes on ordinary and
    folding steps. stages, fold_stages: depth of the loop's pipeline. slice: as in StepConfig.
    """

    heads: int
    rows: int
    tile: int
    slice: int
    stages: int
    fold_tile: int
    fold_stages: int


def _slice(geometry: Geometry, state: torch.dtype) -> int:
    """Columns in 128 bytes of state: eight lanes of 16 bytes share a row, so that a row's sum takes three exchanges between lanes."""
    return min(geometry.state_dim, 128 // state.itemsize)


def _tile(rows: int, wanted: int) -> int:
    """The largest power of two that divides `rows` and is at most `wanted`."""
    return min(rows & -rows, wanted)


def step_config(geometry: Geometry, state: torch.dtype) -> StepConfig:
    return StepConfig(tile=_tile(geometry.head_dim, 16), slice=_slice(geometry, state), warps=1)


def replay_config(geometry: Geometry, state: torch.dtype, rows: int) -> ReplayConfig:
    """The configuration for a batch of `rows`."""
    few = rows * geometry.heads <= 256
    height = geometry.head_dim
    return ReplayConfig(
        heads=1, rows=16 if few else height, tile=16 if few else _tile(height, 32), slice=_slice(geometry, state), stages=2,
        fold_tile=16, fold_stages=2,
    )
