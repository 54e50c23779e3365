"""What cursors.commit and the fold rule say, written once more as plain Python over lists of tokens; no test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Ring", "cells"]


@dataclass
class Ring:
    """One slot: a ring of token names, the tokens its checkpoint holds, and those that were accepted so far.

    A window is written behind the committed rows before anyone knows what stays of it.
    """

    capacity: int
    window: int
    used: int = 0
    origin: int = 0
    rows: list[object] = field(default_factory=list)
    checkpoint: list[object] = field(default_factory=list)
    accepted: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = self.rows or [None] * (self.capacity + self.window)

    def row(self, index: int) -> int:
        return (self.origin + index) % len(self.rows)

    def held(self) -> list[object]:
        """Every token that the slot's state has, in order."""
        return self.checkpoint + [self.rows[self.row(i)] for i in range(self.used)]

    def round(self, tokens: list[object], count: int) -> bool:
        """One forward of `tokens`, `count` of which are accepted. Returns whether it folded."""
        folds = bool(tokens) and self.used + self.window > self.capacity
        if folds:
            self.checkpoint = self.held()
        for i, token in enumerate(tokens):
            self.rows[self.row(self.used + i)] = token
        if folds:
            self.origin = self.row(self.used)
        self.used = count if folds else self.used + count
        self.accepted = self.accepted + tokens[:count]
        return folds


def cells(capacity: int, window: int) -> Iterator[tuple[int, int, int, int]]:
    """Every (used, origin, length, count), counts from one below to one above what a row has."""
    for used in range(capacity + 1):
        for origin in range(capacity + window):
            for length in range(window + 1):
                for count in range(-1, length + 2):
                    yield used, origin, length, count
