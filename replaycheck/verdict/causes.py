"""Broken guarantees in the order in which they explain each other: a slot overwritten breaks every number after it, and not the reverse."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CAUSES", "nearest_cause"]

#: Ranks, nearest the cause first. Within a rank none explains another.
CAUSES: tuple[tuple[str, ...], ...] = (
    ("contract", "compile"),
    ("write-set", "bounds", "pads", "continuity"),
    ("poison", "isolation", "split", "movement", "determinism"),
    ("finite", "outputs", "state", "gates", "rounding", "exact"),
)


def nearest_cause(broken: Iterable[str]) -> tuple[str, ...]:
    """Of the broken guarantees, those of the first rank that has any. Raises ValueError naming an unknown guarantee."""
    names = tuple(dict.fromkeys(broken))
    known = {guarantee for rank in CAUSES for guarantee in rank}
    for name in names:
        if name not in known:
            raise ValueError(f"guarantee {name!r} has no rank; known are {', '.join(sorted(known))}")
    for rank in CAUSES:
        found = tuple(name for name in names if name in rank)
        if found:
            return found
    return ()
