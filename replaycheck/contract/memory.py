"""Memory that the checker owns: every persistent buffer of a kernel lies here, between guard bands and full of poison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .bits import as_bits

__all__ = ["POISONS", "ROLES", "Change", "Memory", "Snapshot", "fill_poison", "guarded"]

#: What a buffer is for. Slots of state, scale and ring are poisoned while free, scratch before every forward; cursor and rng start at
#: zero and are never poisoned; null is a sink that anything may write and nothing may depend on.
ROLES = ("state", "scale", "ring", "cursor", "rng", "scratch", "null")
#: Two finite poisons of opposite signs and different size, and NaN.
POISONS = ("finite", "finite-2", "nan")

_SLOTTED = ("state", "scale", "ring")
_ALIGN = 512                # bytes; what a device allocator aligns to, so that guards do not change a kernel's vector width
_LARGEST_GUARD = 1 << 20    # bytes


def fill_poison(tensor: Tensor, poison: str) -> None:
    """Overwrite `tensor` with a poison of POISONS.

    "finite": a quarter of the format's largest number; "finite-2": 1e4 (less in narrow formats) with every sign turned. Signs are
    mixed, so that the poison is seen whether a kernel takes its exponential, its difference or its product with a mask. Integers get a
    repeated byte, the same for "finite" and "nan".
    """
    if poison not in POISONS:
        raise ValueError(f"poison must be one of {', '.join(POISONS)}, got {poison!r}")
    if not tensor.is_floating_point():
        _fill_integers(tensor, 0x25 if poison == "finite-2" else 0x5A)
    elif poison == "nan":
        tensor.fill_(float("nan"))
    else:
        largest = torch.finfo(tensor.dtype).max
        size = largest / 4 if poison == "finite" else min(1e4, largest / 16)
        negative = (torch.arange(tensor.numel(), device=tensor.device) * 2654435761 >> 13) & 1 == (poison == "finite")
        wide = torch.full((tensor.numel(),), size, dtype=torch.float64, device=tensor.device)
        tensor.copy_(torch.where(negative, -wide, wide).to(tensor.dtype).view(tensor.shape))


def _fill_integers(tensor: Tensor, byte: int) -> None:
    if tensor.dtype == torch.bool:
        tensor.fill_(True)
        return
    pattern = torch.full((tensor.element_size(),), byte, dtype=torch.uint8, device=tensor.device).view(tensor.dtype)
    tensor.copy_(pattern.expand(tensor.numel()).view(tensor.shape))


def guarded(shape: Sequence[int], dtype: torch.dtype, device: torch.device | str, *, guard: int) -> tuple[Tensor, Tensor]:
    """A contiguous view of `shape` and the flat storage it lies in, at least `guard` elements of which stand on either side."""
    itemsize = torch.empty((), dtype=dtype).element_size()
    step = _ALIGN // itemsize
    band = max(1, -(-guard // step)) * step
    count = 1
    for extent in shape:
        count *= extent
    storage = torch.empty(band + count + band, dtype=dtype, device=device)
    return storage[band:band + count].view(tuple(shape)), storage


@dataclass(frozen=True, kw_only=True)
class _Buffer:
    name: str
    role: str
    view: Tensor
    storage: Tensor
    slot_axis: int | None
    first_slot: int

    @property
    def guard(self) -> int:
        return (self.storage.numel() - self.view.numel()) // 2

    def slot(self, slot: int) -> Tensor:
        assert self.slot_axis is not None
        return self.view.select(self.slot_axis, slot + self.first_slot)


@dataclass(frozen=True, kw_only=True)
class Change:
    """Elements of one buffer that were written: in one slot (None: the buffer has no slots), or in its guard bands.

    first: coordinates inside the slot, or the offset in elements from the buffer's first element where a guard band was hit.
    """

    buffer: str
    role: str
    slot: int | None
    guard: bool
    elements: int
    first: tuple[int, ...]


@dataclass
class Snapshot:
    """The bits of every buffer, guard bands included, at one moment."""

    bits: dict[str, Tensor] = field(default_factory=dict)


class Memory:
    """Hands out buffers and knows what was written.

    poison: what free memory holds. on_alloc: called with every view handed out (an interpreter's bounds checker).
    """

    def __init__(self, device: torch.device | str = "cpu", *, poison: str = "finite",
                 on_alloc: Callable[[Tensor], None] | None = None) -> None:
        if poison not in POISONS:
            raise ValueError(f"poison must be one of {', '.join(POISONS)}, got {poison!r}")
        self.device = torch.device(device)
        self.poison = poison
        self._on_alloc = on_alloc
        self._buffers: dict[str, _Buffer] = {}

    def alloc(self, name: str, shape: Sequence[int], dtype: torch.dtype, *, role: str, slot_axis: int | None = None,
              row_axis: int | None = None, first_slot: int = 0) -> Tensor:
        """A contiguous tensor of `shape` on the memory's device: poisoned, or zero for the roles cursor and rng.

        slot_axis: the axis that counts slots (state, scale and ring must have one). Slot s lies at index s + first_slot; entries that
        belong to no slot are sinks for pads. row_axis: the axis that counts ring rows. Raises ValueError naming the argument.
        """
        if name in self._buffers:
            raise ValueError(f"memory.alloc: there is already a buffer named {name!r}")
        if role not in ROLES:
            raise ValueError(f"memory.alloc({name!r}): role must be one of {', '.join(ROLES)}, got {role!r}")
        if role in _SLOTTED and slot_axis is None:
            raise ValueError(f"memory.alloc({name!r}): a buffer of role {role!r} needs slot_axis")
        for axis_name, axis in (("slot_axis", slot_axis), ("row_axis", row_axis)):
            if axis is not None and not 0 <= axis < len(shape):
                raise ValueError(f"memory.alloc({name!r}): {axis_name} must lie in [0, {len(shape)}), got {axis}")
        view, storage = guarded(shape, dtype, self.device, guard=self._guard(shape, dtype, slot_axis))
        fill_poison(storage, self.poison)
        if role in ("cursor", "rng"):
            view.zero_()
        self._buffers[name] = _Buffer(name=name, role=role, view=view, storage=storage, slot_axis=slot_axis, first_slot=first_slot)
        if self._on_alloc is not None:
            self._on_alloc(view)
        return view

    @staticmethod
    def _guard(shape: Sequence[int], dtype: torch.dtype, slot_axis: int | None) -> int:
        """One slot's worth on either side, so that slot -1 and slot `slots` fall into a guard band."""
        itemsize = torch.empty((), dtype=dtype).element_size()
        entry = 1
        for axis, extent in enumerate(shape):
            entry *= 1 if slot_axis is None or axis <= slot_axis else extent
        return min(entry, _LARGEST_GUARD // itemsize)

    def poison_slot(self, slot: int) -> None:
        """Poison what state, scale and ring hold for `slot`."""
        for buffer in self._buffers.values():
            if buffer.role in _SLOTTED:
                fill_poison(buffer.slot(slot), self.poison)

    def poison_scratch(self) -> None:
        """Poison every scratch buffer."""
        for buffer in self._buffers.values():
            if buffer.role == "scratch":
                fill_poison(buffer.view, self.poison)

    def snapshot(self) -> Snapshot:
        """The bits of every buffer now."""
        return Snapshot({b.name: as_bits(b.storage).clone() for b in self._buffers.values()})

    def elements(self) -> int:
        """How many elements one call of `changed` compares."""
        return sum(b.storage.numel() for b in self._buffers.values())

    def changed(self, snapshot: Snapshot) -> list[Change]:
        """What was written since `snapshot`, which then stands for now. Buffers of role scratch and null are watched in their guard
        bands only."""
        changes: list[Change] = []
        for buffer in self._buffers.values():
            now = as_bits(buffer.storage)
            then = snapshot.bits.get(buffer.name)
            if then is None:
                snapshot.bits[buffer.name] = now.clone()
            elif not torch.equal(now, then):
                changes += _changes(buffer, now != then)
                then.copy_(now)
        return changes


def _changes(buffer: _Buffer, differs: Tensor) -> list[Change]:
    found: list[Change] = []
    inside = differs[buffer.guard:buffer.guard + buffer.view.numel()].view(buffer.view.shape)
    outside = differs.clone()
    outside[buffer.guard:buffer.guard + buffer.view.numel()] = False
    if bool(outside.any()):
        found.append(_change(buffer, None, True, outside, offset=-buffer.guard))
    if buffer.role in ("scratch", "null") or not bool(inside.any()):
        return found
    if buffer.slot_axis is None:
        return [*found, _change(buffer, None, False, inside)]
    by_slot = inside.movedim(buffer.slot_axis, 0)
    for index in by_slot.reshape(by_slot.shape[0], -1).any(1).nonzero().flatten().tolist():
        found.append(_change(buffer, index - buffer.first_slot, False, by_slot[index]))
    return found


def _change(buffer: _Buffer, slot: int | None, guard: bool, differs: Tensor, *, offset: int = 0) -> Change:
    first = tuple(int(i) + offset for i in differs.nonzero()[0])
    return Change(buffer=buffer.name, role=buffer.role, slot=slot, guard=guard, elements=int(differs.sum()), first=first)
