"""The parameters of form of each recurrence: which mathematics, not how it is rounded."""

from __future__ import annotations

from .delta import DeltaVariant
from .mamba2 import Mamba2Variant

__all__ = ["DeltaVariant", "Mamba2Variant", "Variant"]

Variant = Mamba2Variant | DeltaVariant
