"""The gauge of the delta rules: Gated DeltaNet and Kimi Delta Attention."""

from __future__ import annotations

from .bound import DeltaBound, bound

__all__ = ["DeltaBound", "bound"]
