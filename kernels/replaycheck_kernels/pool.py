"""The memory of one layer: one state, and for replay one ring of recent tokens, per slot.

The checks of what a pool is asked for serve every recurrence; the ring is that of Mamba-2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from .rows import MAX_WINDOW

__all__ = [
    "Allocator", "DIMS", "Geometry", "MAX_CAPACITY", "Pool", "Ring", "allocate", "asked", "check_capacity", "check_format", "on_device",
    "shared",
]

#: allocator(name, shape, dtype) -> contiguous tensor. Names: "state", "cursor", "origin", and of a ring "ring." and what it holds.
Allocator = Callable[[str, tuple[int, ...], torch.dtype], Tensor]

MAX_CAPACITY = 64
#: Of heads and of the state: rows of every dtype start at multiples of 8 bytes.
DIMS = range(16, 257, 4)
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Dims of one layer. The state of a slot is [heads, head_dim, state_dim]; heads // groups consecutive heads share B and C.

    Raises ValueError where the kernels do not support the dims: head_dim and state_dim must be multiples of 4 from 16 to 256, groups a
    divisor of heads.
    """

    heads: int
    head_dim: int
    state_dim: int
    groups: int

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, got {self.heads}")
        if self.groups < 1 or self.heads % self.groups:
            raise ValueError(f"groups must divide heads = {self.heads}, got {self.groups}")
        for name in ("head_dim", "state_dim"):
            dim = getattr(self, name)
            if dim not in DIMS:
                raise ValueError(f"{name} must be a multiple of 4 from 16 to 256, got {dim}")

    @property
    def columns(self) -> int:
        """Width of a tile of the state: state_dim or the next power of two."""
        return 1 << (self.state_dim - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class Ring:
    """Recent tokens of every slot, not yet folded into its state. Row i is the i-th token since the last fold.

    x: [slots, heads, rows, head_dim] and B: [slots, groups, rows, state_dim] in the activation dtype, bits as received.
    dt: fp32 [slots, heads, rows], after bias and softplus. cursor: int32 [slots], rows in use; layers of one stack share it. Rows at and
    past the cursor are never read.

    A ring of plain decode (origin None) has `capacity` rows. A fold comes every `capacity` tokens, so the last row stays unused.
    A ring of speculative decode has `window` rows more, for tokens that may be taken back, and turns: origin, int32 [slots], shared like
    the cursor, is where row 0 lies, and row i lies at (origin + i) mod rows. The cursor is then from 0 to capacity.
    """

    x: Tensor
    B: Tensor
    dt: Tensor
    cursor: Tensor
    origin: Tensor | None = None
    window: int = 0

    @property
    def capacity(self) -> int:
        return int(self.x.shape[2]) - self.window

    @property
    def held(self) -> tuple[Tensor, ...]:
        """What the ring holds of tokens."""
        return self.x, self.B, self.dt


@dataclass(frozen=True, kw_only=True)
class Pool:
    """state: contiguous [slots, heads, head_dim, state_dim], fp32, fp16 or bf16. ring: None for a step pool."""

    geometry: Geometry
    state: Tensor
    ring: Ring | None = None

    @property
    def slots(self) -> int:
        return int(self.state.shape[0])


def on_device(device: torch.device | str) -> Allocator:
    """An allocator of zeros on one device."""
    return lambda name, shape, dtype: torch.zeros(shape, dtype=dtype, device=device)


def check_format(name: str, dtype: torch.dtype) -> None:
    """Raises ValueError where a pool cannot hold this format."""
    if dtype not in _FLOATS:
        raise ValueError(f"{name} must be float32, float16 or bfloat16, got {dtype}")


def check_capacity(capacity: int) -> None:
    """Raises ValueError where no ring has this capacity."""
    if not 1 <= capacity <= MAX_CAPACITY:
        raise ValueError(f"capacity must be from 1 to {MAX_CAPACITY}, got {capacity}")


def shared(name: str, cursor: Tensor, slots: int) -> Tensor:
    """A cursor that an earlier layer of the stack has. Raises ValueError where it is not one of `slots` slots."""
    if tuple(cursor.shape) != (slots,) or cursor.dtype != torch.int32:
        raise ValueError(f"{name} must be int32 [{slots}], got {cursor.dtype} {tuple(cursor.shape)}")
    return cursor


def asked(allocator: Allocator) -> Allocator:
    """The allocator, held to what it is asked for: ValueError where it returns another tensor."""

    def get(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        made = allocator(name, shape, dtype)
        if tuple(made.shape) != shape or made.dtype != dtype or (prod(shape) > 0 and not made.is_contiguous()):
            raise ValueError(f"the allocator must return contiguous {dtype} {shape} for {name}, got {made.dtype} {tuple(made.shape)}")
        return made

    return get


def allocate(
    geometry: Geometry, *, slots: int, state: torch.dtype, activation: torch.dtype = torch.bfloat16, capacity: int | None = None,
    window: int = 0, cursor: Tensor | None = None, origin: Tensor | None = None, allocator: Allocator,
) -> Pool:
    """A pool of `slots` slots; with a ring of `capacity` tokens where that is given, that turns where a window is given too.

    window: the most tokens a row of a speculative forward has, at most `capacity`. cursor, origin: int32 [slots] to share with an earlier
    layer of the stack; None allocates one, which the allocator must return zeroed.
    Raises ValueError naming the argument, and where the allocator returns a tensor that is not as asked.
    """
    if slots < 1:
        raise ValueError(f"slots must be at least 1, got {slots}")
    check_format("state", state)
    check_format("activation", activation)
    get, g = asked(allocator), geometry
    store = get("state", (slots, g.heads, g.head_dim, g.state_dim), state)
    if capacity is None:
        return Pool(geometry=g, state=store)
    check_capacity(capacity)
    if not 0 <= window <= min(capacity, MAX_WINDOW):
        raise ValueError(f"window must be from 0 to {MAX_WINDOW} and at most capacity = {capacity}, got {window}")
    if origin is not None and not window:
        raise ValueError("origin is of a ring with a window, got one without")
    rows = capacity + window
    ring = Ring(
        x=get("ring.x", (slots, g.heads, rows, g.head_dim), activation),
        B=get("ring.B", (slots, g.groups, rows, g.state_dim), activation),
        dt=get("ring.dt", (slots, g.heads, rows), torch.float32),
        cursor=get("cursor", (slots,), torch.int32) if cursor is None else shared("cursor", cursor, slots),
        origin=None if not window else get("origin", (slots,), torch.int32) if origin is None else shared("origin", origin, slots),
        window=window,
    )
    return Pool(geometry=g, state=store, ring=ring)
