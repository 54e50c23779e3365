"""Coverage: the cells of the ring in which a fault would have been seen. A pass over too few of them proves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from replaycheck.contract.claims import Claims

__all__ = ["FLOOR_CAPACITY", "Cell", "Coverage", "owed_cells"]

#: Every cell of rings up to this capacity is owed by a replay kernel.
FLOOR_CAPACITY = 4


@dataclass(frozen=True, order=True, kw_only=True)
class Cell:
    """One place in which a ring row acts: in a ring of `capacity`, on an output at `position` of the window, the token of `age`.

    position 0 is the first token since the last fold; age 0 is the token of the output itself. path: "output" or "flush".
    """

    capacity: int
    position: int
    age: int
    path: str


def owed_cells(claims: Claims) -> frozenset[Cell]:
    """The floor: every cell of every claimed capacity up to FLOOR_CAPACITY. A step kernel owes none, nor does a verify kernel that
    publishes what a row accepted, whose windows are its rows: see rounds.

    The last position folds; where a flush folds the tokens before its own, the first position of the next window does.
    """
    if claims.kind == "step" or (claims.kind == "verify" and claims.policy.paths["flush"].folds == "through"):
        return frozenset()
    low, high = claims.capacities
    cells = [(capacity, position, age) for capacity in range(low, min(high, FLOOR_CAPACITY) + 1)
             for position in range(capacity) for age in range(position + 1)]
    if claims.policy.paths["flush"].folds == "before":
        flushes = {(capacity, 0, 0, "flush") for capacity, _, _ in cells}
        outputs = {(*cell, "output") for cell in cells}
        return frozenset(Cell(capacity=c, position=p, age=a, path=path) for c, p, a, path in outputs | flushes)
    return frozenset(Cell(capacity=c, position=p, age=a, path="flush" if p == c - 1 else "output") for c, p, a in cells)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Cells owed by the kernel and cells seen by the run, over all of its plays."""

    owed: frozenset[Cell]
    seen: frozenset[Cell]

    @property
    def missing(self) -> tuple[Cell, ...]:
        return tuple(sorted(self.owed - self.seen))

    @property
    def gaps(self) -> tuple[str, ...]:
        """One line where the floor is not reached, else nothing."""
        missing = self.missing
        if not missing:
            return ()
        first = missing[0]
        return (
            f"coverage: {len(self.owed) - len(missing)} of {len(self.owed)} cells seen; first missing: capacity {first.capacity}, "
            f"position {first.position}, age {first.age}, path {first.path}{self._misplaced(first.capacity)}",
        )

    def _misplaced(self, capacity: int) -> str:
        """Where the steps that folded stood, where that is not where the claims put them."""
        due, stood = ({c.position for c in cells if c.capacity == capacity and c.path == "flush"} for cells in (self.owed, self.seen))
        if not stood or stood == due:
            return ""
        return (f"; at capacity {capacity} steps that fold stood at position {', '.join(map(str, sorted(stood)))} of their window, not at "
                f"{', '.join(map(str, sorted(due)))}: see capacity, and folds in the policy")
