"""Compiling what ran, for sm_90, on any machine, and reading what it became."""

from __future__ import annotations

from . import ptx
from .check import compile_measurements
from .compiler import Compiled, compile_launches

__all__ = ["Compiled", "compile_launches", "compile_measurements", "ptx"]
