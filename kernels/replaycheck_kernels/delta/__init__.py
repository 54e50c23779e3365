"""Decode of the gated delta rules, Gated DeltaNet (one decay a head) and Kimi Delta Attention (one a key channel): `step` (state written
every token). Which of the two a launch is says its pool.
"""

from .inputs import Form
from .pool import DeltaPool, allocate
from .step import step

__all__ = ["DeltaPool", "Form", "allocate", "step"]
