"""Launch configurations of the delta rules: one a build, whatever the batch, so that no bit depends on it. Not measured yet."""

from __future__ import annotations

from dataclasses import dataclass

from ..pool import Geometry

__all__ = ["StepConfig", "step_config"]


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """tile: rows of the head dim a program, a power of two. warps: of a program."""

    tile: int
    warps: int = 1


def step_config(geometry: Geometry) -> StepConfig:
    """The configuration of a build: tiles of at most 2048 elements, 64 a lane."""
    return StepConfig(tile=min(16, 2048 // geometry.columns))
