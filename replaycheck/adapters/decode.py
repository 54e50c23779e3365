"""What our kernels of plain decode have in common as the checker sees them, whatever the recurrence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD, Stored
from replaycheck_kernels import cursors
from replaycheck_kernels.pool import Allocator

__all__ = ["FORMATS", "DecodeSession", "allocator", "check_build"]

FORMATS = ("fp32", "fp16", "bf16")


class DecodeSession:
    """A stack of layers over one memory; layers of a replay stack share the cursor of the first.

    pools: one a layer, each with `state` and `ring`. launch(layer, slots, tokens, out): one launch on a layer's pool.
    """

    def __init__(self, pools: Sequence[Any], launch: Callable[[int, Tensor, Any, Tensor], object]) -> None:
        self._pools = pools
        self._launch = launch
        self._committed = [0] * pools[0].slots
        self._slots = torch.empty(0, dtype=torch.int32, device=pools[0].state.device)
        self._rows: list[tuple[int, int]] = []

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        for index, pool in enumerate(self._pools):
            if states is None:
                pool.state[slot].zero_()
            else:
                pool.state[slot].copy_(states[index])
        ring = self._pools[0].ring
        if ring is not None:
            ring.cursor[slot] = 0
        self._committed[slot] = 0

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        for slot, length in rows:
            if length not in (0, 1):
                raise ValueError(f"a row of a decode step holds one token, got length {length} for slot {slot}")
        self._rows = list(rows)
        named = [slot for slot, length in rows if length]
        self._slots = torch.tensor(named, dtype=torch.int32, device=self._slots.device)

    def run(self, layer: int, tokens: Any, out: Tensor) -> None:
        self._launch(layer, self._slots, tokens, out)

    def commit(self, counts: Sequence[int | None]) -> None:
        for (slot, length), count in zip(self._rows, counts, strict=True):
            if count is not None and count != length:
                raise ValueError(f"a decode step cannot be taken back: commit of {count} of {length} tokens for slot {slot}")
        ring = self._pools[0].ring
        if ring is not None:
            cursors.advance(ring.cursor, self._slots, capacity=ring.capacity)
        for slot, length in self._rows:
            if slot != PAD:
                self._committed[slot] += length

    def copy(self, src: int, dst: int) -> None:
        for pool in self._pools:
            for buffer in (pool.state, *(() if pool.ring is None else pool.ring.held)):
                buffer[dst].copy_(buffer[src])
        ring = self._pools[0].ring
        if ring is not None:
            ring.cursor[dst] = ring.cursor[src]
        self._committed[dst] = self._committed[src]

    def release(self, slot: int) -> None:
        """Nothing to do: admit starts a slot afresh, and rows past the cursor are never read."""

    def stored(self, slot: int, layer: int) -> Stored:
        ring = self._pools[layer].ring
        pending = 0 if ring is None else int(ring.cursor[slot])
        return Stored(bits=self._pools[layer].state[slot], folded=self._committed[slot] - pending)


def check_build(claims: Claims, formats: Formats, capacity: int) -> None:
    """Raises ValueError where a build of these claims cannot have these formats or this capacity."""
    low, high = claims.capacities
    if not low <= capacity <= high:
        raise ValueError(f"capacity must be from {low} to {high}, got {capacity}")
    for part in ("state", "activation", "output"):
        if getattr(formats, part) not in FORMATS:
            raise ValueError(f"{part} format must be one of {', '.join(FORMATS)}, got {getattr(formats, part)}")


def allocator(memory: Memory, layer: int) -> Allocator:
    """The checker's memory as an allocator: slots come first, ring rows third."""

    def alloc(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        role = {"state": "state", "cursor": "cursor", "origin": "cursor"}.get(name, "ring")
        return memory.alloc(
            f"layer{layer}.{name}", shape, dtype, role=role, slot_axis=0, row_axis=2 if role == "ring" else None
        )

    return alloc
