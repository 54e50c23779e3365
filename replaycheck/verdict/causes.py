"""Broken guarantees in the order in which they explain each other: a slot overwritten breaks every number after it, and not the reverse.

Where one case gives two results, plays differ in bits whatever else was changed between them: determinism explains poison and the like.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["CAUSES", "by_cause", "nearest_cause"]

#: Ranks, nearest the cause first. Within a rank none explains another.
CAUSES: tuple[tuple[str, ...], ...] = (
    ("contract", "compile"),
    ("write-set", "bounds", "pads", "continuity"),
    ("determinism",),
    ("poison", "isolation", "split", "movement", "drafts", "speculation"),
    ("finite", "outputs", "state", "gates", "rounding", "exact"),
)


def nearest_cause(broken: Iterable[str]) -> tuple[str, ...]:
    """Of the broken guarantees, those of the first rank that has any. Raises ValueError naming an unknown guarantee."""
    names = by_cause(broken)
    return tuple(name for name in names if _rank(name) == _rank(names[0]))


def by_cause(broken: Iterable[str]) -> tuple[str, ...]:
    """The broken guarantees, those nearest the cause first, otherwise in the order given. Raises ValueError naming an unknown guarantee."""
    return tuple(sorted(dict.fromkeys(broken), key=_rank))


def _rank(guarantee: str) -> int:
    for place, rank in enumerate(CAUSES):
        if guarantee in rank:
            return place
    raise ValueError(f"guarantee {guarantee!r} has no rank; known are {', '.join(sorted(name for rank in CAUSES for name in rank))}")
