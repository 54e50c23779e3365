"""Launch configurations of the delta rules: one a build, whatever the batch, so that no bit depends on it. Not measured yet."""

from __future__ import annotations

from dataclasses import dataclass

from ..pool import Geometry

__all__ = ["ReplayConfig", "StepConfig", "replay_config", "step_config"]


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """tile: rows of the head dim a program, a power of two. warps: of a program."""

    tile: int
    warps: int = 1


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """tile: rows of the head dim a program, a power of two of at least 16. warps: of a program."""

    tile: int = 16
    warps: int = 2


def step_config(geometry: Geometry) -> StepConfig:
    """The configuration of a build: tiles of at most 2048 elements, 64 a lane."""
    return StepConfig(tile=min(16, 2048 // geometry.columns))


def replay_config(geometry: Geometry) -> ReplayConfig:
    """The configuration of a build: a tile of the state, and one of keys and weights each, of 32 elements a lane."""
    return ReplayConfig(warps=max(1, geometry.columns // 64))
