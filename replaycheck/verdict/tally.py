"""A tally: what a run keeps of its measurements, whatever their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .measurement import Measurement

__all__ = ["KEPT_FAILURES", "Tally"]

#: Failing measurements kept per guarantee, the first ones found.
KEPT_FAILURES = 3


class Tally:
    """Counts, the worst per guarantee and regime, and the first failures per guarantee.

    counts: measurements per (guarantee, regime). worst: the one of largest ratio per (guarantee, regime). failures: the first few that did
    not pass, per guarantee. suspicious: the worst suspicious one per guarantee.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[str] = Counter()
        self.worst: dict[tuple[str, str], Measurement] = {}
        self.failures: dict[str, list[Measurement]] = {}
        self.suspicious: dict[str, Measurement] = {}

    def add(self, measurements: Iterable[Measurement]) -> None:
        """Take in measurements, in the order in which they were made."""
        for m in measurements:
            cell = (m.guarantee, m.regime)
            self.counts[cell] += 1
            if cell not in self.worst or m.ratio > self.worst[cell].ratio:
                self.worst[cell] = m
            if not m.passed:
                self.failed[m.guarantee] += 1
                kept = self.failures.setdefault(m.guarantee, [])
                if len(kept) < KEPT_FAILURES:
                    kept.append(m)
            elif m.suspicious and (m.guarantee not in self.suspicious or m.ratio > self.suspicious[m.guarantee].ratio):
                self.suspicious[m.guarantee] = m

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees measured at least once, in the order in which they first were."""
        return tuple(dict.fromkeys(guarantee for guarantee, _ in self.counts))

    @property
    def regimes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(regime for _, regime in self.counts))

    def worst_of(self, guarantee: str) -> Measurement | None:
        """The measurement of largest ratio of one guarantee over all regimes."""
        found = [m for (name, _), m in self.worst.items() if name == guarantee]
        return max(found, key=lambda m: m.ratio, default=None)

    @property
    def overall(self) -> Measurement | None:
        """The measurement of largest ratio of the whole run."""
        return max(self.worst.values(), key=lambda m: m.ratio, default=None)
