"""The memory of one layer of a delta rule: one state, and for replay one ring of recent tokens, per slot."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..pool import Allocator, Geometry, asked, check_capacity, check_format, shared

__all__ = ["DeltaPool", "DeltaRing", "RINGS", "allocate"]

#: What a ring may hold keys and deltas in.
RINGS = (torch.float32, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class DeltaRing:
    """Recent tokens of every slot, not yet folded into its state. Row i is the i-th token since the last fold.

    key: [slots, groups, rows, state_dim], normalised, and delta: [slots, heads, rows, head_dim], in one of RINGS. A key is rounded to that
    before any use, so that what a token folds is what it predicted with; its delta is rounded when it is put here.
    gate: fp32 log decays, [slots, heads, rows], or [slots, heads, rows, state_dim] where every key channel has its own.
    cursor: int32 [slots], rows in use; layers of one stack share it. Rows at and past the cursor are never read; a fold comes every
    `capacity` tokens, so the last row stays unused.
    """

    key: Tensor
    delta: Tensor
    gate: Tensor
    cursor: Tensor

    @property
    def capacity(self) -> int:
        return int(self.key.shape[2])

    @property
    def held(self) -> tuple[Tensor, ...]:
        """What the ring holds of tokens."""
        return self.key, self.delta, self.gate


@dataclass(frozen=True, kw_only=True)
class DeltaPool:
    """state: contiguous [slots, heads, head_dim, state_dim], fp32, fp16 or bf16. ring: None for a step pool.

    geometry: heads and head_dim of values, groups and state_dim of keys. channels: every key channel has a decay of its own (Kimi Delta
    Attention), not every head (Gated DeltaNet).
    """

    geometry: Geometry
    channels: bool
    state: Tensor
    ring: DeltaRing | None = None

    @property
    def slots(self) -> int:
        return int(self.state.shape[0])

    @property
    def gate_shape(self) -> tuple[int, ...]:
        """Of the log decays of one token."""
        g = self.geometry
        return (g.heads, g.state_dim) if self.channels else (g.heads,)


def allocate(
    geometry: Geometry, *, channels: bool, slots: int, state: torch.dtype, ring: torch.dtype = torch.float32, capacity: int | None = None,
    cursor: Tensor | None = None, allocator: Allocator,
) -> DeltaPool:
    """A pool of `slots` slots; with a ring of `capacity` tokens in the format `ring` where a capacity is given.

    cursor: int32 [slots] to share with an earlier layer of the stack; None allocates one, which the allocator must return zeroed.
    Raises ValueError naming the argument, and where the allocator returns a tensor that is not as asked.
    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1, got {slots}")
    check_format("state", state)
    if ring not in RINGS:
        raise ValueError(f"ring must be float32 or bfloat16, got {ring}")
    get, g = asked(allocator), geometry
    store = get("state", (slots, g.heads, g.head_dim, g.state_dim), state)
    if capacity is None:
        return DeltaPool(geometry=g, channels=channels, state=store)
    check_capacity(capacity)
    made = DeltaRing(
        key=get("ring.key", (slots, g.groups, capacity, g.state_dim), ring),
        delta=get("ring.delta", (slots, g.heads, capacity, g.head_dim), ring),
        gate=get("ring.gate", (slots, g.heads, capacity, *((g.state_dim,) if channels else ())), torch.float32),
        cursor=get("cursor", (slots,), torch.int32) if cursor is None else shared("cursor", cursor, slots),
    )
    return DeltaPool(geometry=g, channels=channels, state=store, ring=made)
