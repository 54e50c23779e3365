"""Decode of the gated delta rules, Gated DeltaNet (one decay a head) and Kimi Delta Attention (one a key channel): `step` (state written
every token) and `replay` (state written once every `capacity` tokens). Which of the two a launch is says its pool.
"""

from .inputs import Form
from .pool import DeltaPool, allocate
from .replay import replay
from .step import step

__all__ = ["DeltaPool", "Form", "allocate", "replay", "step"]
