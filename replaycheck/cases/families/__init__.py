"""Recurrences as cases know them: one `Family` a recurrence, by name."""

from __future__ import annotations

from replaycheck_reference.variant import Variant

from . import delta, mamba2
from .family import Family

__all__ = ["FAMILIES", "Family", "entry_of", "family"]

FAMILIES: dict[str, Family] = {"mamba2": mamba2.FAMILY, "gdn": delta.GDN, "kda": delta.KDA}


def family(recurrence: str) -> Family:
    """The family of a recurrence. Raises ValueError listing the known ones."""
    if recurrence not in FAMILIES:
        raise ValueError(f"recurrence must be one of {', '.join(FAMILIES)}, got {recurrence!r}")
    return FAMILIES[recurrence]


def entry_of(variant: Variant) -> str:
    """Whether gates come "raw" or "given"."""
    return "given" if getattr(variant, "gate", "") == "given" else "raw"
