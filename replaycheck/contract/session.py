"""The adapter protocol: all that a kernel author implements.

Every `begin` is closed by one `commit` before the next `begin`, `copy` or `release` of those slots. Zero-length rows are allowed
and change nothing. A row of a verify kernel holds the certain token and drafts, and a commit keeps the first of them, from none
to all. Pad rows of the output are left untouched or set to zero, as claimed. `admit` copies what it is given.
`stored` only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from .claims import Claims, Formats
from .memory import Memory

__all__ = ["PAD", "Kernel", "Session", "Stored"]

#: The slot of a row that names none.
PAD = -1


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The state a slot has published, raw.

    bits: [heads, head_dim, state_dim] in the stored dtype. folded: how many committed tokens since admit it contains.
    """

    bits: Tensor
    folded: int


class Session(Protocol):
    """One opened stack of layers. Tensors are on the device the memory was made for."""

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        """Start a request in `slot` from `states` (one [heads, head_dim, state_dim] a layer, stored dtype) or from zero."""

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        """Host side, once a forward: rows of (slot or PAD, length)."""

    def run(self, layer: int, tokens: Any, out: Tensor) -> None:
        """Device launches only, capturable. tokens, of the recurrence's type, are packed in row order, pad rows
        included; out: [tokens, heads, head_dim]."""

    def commit(self, counts: Sequence[int | None]) -> None:
        """Keep the first counts[row] tokens of each row of the last forward; None keeps all, 0 discards the row.

        Only a verify kernel is asked to keep less than all.
        """

    def copy(self, src: int, dst: int) -> None:
        """Make dst an independent copy of src, wherever src stands in its ring."""

    def release(self, slot: int) -> None:
        """The request in `slot` is gone."""

    def stored(self, slot: int, layer: int) -> Stored:
        """The published state of `slot`, as it lies in memory."""


class Kernel(Protocol):
    """What a kernel path names."""

    @property
    def claims(self) -> Claims:
        """What the kernel claims; a plain attribute will do."""

    def open(self, layers: Sequence[Any], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int) -> Session:
        """A session over a stack of layers, of the recurrence's type, sharing cursors. Every persistent buffer comes from `memory`.

        A verify kernel is also given `window`, the most tokens a row will have; no other is.

        Raises ValueError naming the thing and the value where the build is not supported.
        """
