"""A layer: geometry and parameters as exact bits, and the tokens it receives."""

from __future__ import annotations

from .delta import DeltaLayer, DeltaTokens
from .mamba2 import Mamba2Layer, Mamba2Tokens

__all__ = ["DeltaLayer", "DeltaTokens", "Layer", "Mamba2Layer", "Mamba2Tokens", "Tokens"]

Layer = Mamba2Layer | DeltaLayer
Tokens = Mamba2Tokens | DeltaTokens
