"""Coverage of speculative schedules: which rows a verify kernel was given, how much of them it kept, and whether it folded there."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from replaycheck.contract.claims import Claims

__all__ = ["FLOOR_WINDOW", "Round", "owed_rounds", "rounds_gap"]

#: Every row of windows up to this size is owed.
FLOOR_WINDOW = 4


@dataclass(frozen=True, order=True, kw_only=True)
class Round:
    """A row of `length` tokens in a build for `window`, of which `accepted` were kept. folded: whether the slot published a state there."""

    window: int
    length: int
    accepted: int
    folded: bool


def owed_rounds(claims: Claims) -> frozenset[Round]:
    """The floor of a verify kernel: for every claimed window up to FLOOR_WINDOW every length and every count, and where a flush folds the
    tokens before the row's own, each of them on a row that folds and on one that does not. Other kernels owe none."""
    if claims.kind != "verify":
        return frozenset()
    low, high = claims.windows
    either = claims.policy.paths["flush"].folds == "before"
    rows = [(window, length, accepted) for window in range(low, min(high, claims.capacities[1], FLOOR_WINDOW) + 1)
            for length in range(1, window + 1) for accepted in range(length + 1)]
    return frozenset(Round(window=w, length=n, accepted=a, folded=f) for w, n, a in rows for f in ((False, True) if either else (a > 0,)))


def rounds_gap(owed: Set[Round], seen: Set[Round]) -> tuple[str, ...]:
    """One line where the floor is not reached, else nothing."""
    missing = sorted(owed - seen)
    if not missing:
        return ()
    first = missing[0]
    return (f"schedules: {len(owed) - len(missing)} of {len(owed)} kinds of rows seen; first missing: window {first.window}, "
            f"{first.length} token(s), {first.accepted} accepted, {'folding' if first.folded else 'not folding'}",)
