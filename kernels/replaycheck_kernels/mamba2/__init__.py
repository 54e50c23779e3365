"""Mamba-2 decode: `step` (state written every token) and `replay` (state written once every `capacity` tokens)."""

from .replay import replay
from .step import step

__all__ = ["replay", "step"]
