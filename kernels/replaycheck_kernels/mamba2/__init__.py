"""Mamba-2 decode: `step` (state written every token) and `replay` (state written once every `capacity` tokens), and for rows of several
tokens, of which some are taken back, `verify` (on a ring that turns, with `materialise`) and `verify_saving` (with `restore`).
"""

from .materialise import materialise
from .replay import replay
from .saving import restore, verify_saving
from .step import step
from .verify import verify

__all__ = ["materialise", "replay", "restore", "step", "verify", "verify_saving"]
