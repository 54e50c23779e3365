"""What one forward of one layer is handed: packed tokens and an output tensor, both inside larger storages that the checker watches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from replaycheck.cases.families import family
from replaycheck.cases.layers import Geometry
from replaycheck.contract.bits import as_bits
from replaycheck.contract.memory import fill_poison, guarded
from replaycheck_reference.layer import Layer, Tokens

__all__ = ["PackedOutput", "PackedTokens", "filler"]

_GAP = 16            # elements between packed rows of a strided tensor, as between the parts of a fused projection
_SENTINEL = {torch.float64: 0x7FF5A5A5A5A5A5A5, torch.float32: 0x7FE5A5A5, torch.bfloat16: 0x7FE5, torch.float16: 0x7FE5}


def filler(layer: Layer, length: int, dtype: torch.dtype, poison: str) -> Tokens:
    """The tokens of a pad row: poison."""
    own, made = family(layer.recurrence), {}
    for name, shape in own.received(Geometry.of(layer), layer.variant).items():
        made[name] = torch.empty(length, *shape, dtype=dtype)
        fill_poison(made[name], poison)
    tokens: Tokens = own.tokens(**made)
    return tokens


def _laid_out(shape: Sequence[int], dtype: torch.dtype, device: torch.device, *, strided: bool) -> tuple[Tensor, Tensor]:
    """A tensor of `shape` and the flat storage around it; strided: rows stand apart, as slices of a wider tensor do."""
    width = 1
    for extent in shape[1:]:
        width *= extent
    gap = _GAP if strided else 0
    wide, storage = guarded((shape[0], width + 2 * gap), dtype, device, guard=width)
    rows = wide[:, gap:gap + width]
    strides = [storage.stride(0)]
    for extent in reversed(shape[2:]):
        strides.insert(0, strides[0] * extent)
    return rows.as_strided(tuple(shape), (wide.shape[1], *strides)), storage


class PackedTokens:
    """The rows of a forward, one after the other, on the device.

    tokens: views to hand to the kernel. Surroundings hold poison. `changed` finds any bit that moved, inside or around.
    """

    def __init__(self, parts: Sequence[Any], device: torch.device, *, strided: bool, poison: str,
                 on_alloc: Callable[[Tensor], None] | None = None) -> None:
        whole = type(parts[0]).cat(parts)
        self._storages: dict[str, tuple[Tensor, Tensor]] = {}
        views: dict[str, Tensor] = {}
        for name, given in whole.tensors().items():
            view, storage = _laid_out(given.shape, given.dtype, device, strided=strided)
            fill_poison(storage, poison)
            view.copy_(given)
            if on_alloc is not None:
                on_alloc(view)
            views[name] = view
            self._storages[name] = (storage, as_bits(storage).clone())
        self.tokens: Tokens = replace(whole, **views)

    def elements(self) -> int:
        return sum(storage.numel() for storage, _ in self._storages.values())

    def changed(self) -> list[tuple[str, int]]:
        """(name, elements) of every tensor whose bits moved."""
        return [(name, int((as_bits(storage) != before).sum())) for name, (storage, before) in self._storages.items()
                if not torch.equal(as_bits(storage), before)]

    def discard(self, poison: str) -> None:
        """Poison everything, so that a kernel that kept a reference is found out."""
        for storage, _ in self._storages.values():
            fill_poison(storage, poison)


class PackedOutput:
    """The output tensor of a forward: a view whose every element, and everything around it, starts as one NaN pattern."""

    def __init__(self, tokens: int, layer: Layer, dtype: torch.dtype, device: torch.device, *, strided: bool,
                 on_alloc: Callable[[Tensor], None] | None = None) -> None:
        self.view, self._storage = _laid_out((tokens, layer.heads, layer.head_dim), dtype, device, strided=strided)
        as_bits(self._storage).fill_(_SENTINEL[dtype])
        if on_alloc is not None:
            on_alloc(self.view)

    def untouched(self, rows: slice) -> Tensor:
        """Which elements of these rows still hold the pattern: bool [rows, heads, head_dim]."""
        return as_bits(self.view[rows]) == _SENTINEL[self.view.dtype]

    def elements_around(self) -> int:
        return self._storage.numel() - self.view.numel()

    def written_around(self) -> int:
        """How many elements around the view were written."""
        inside = self.view.numel() - int(self.untouched(slice(None)).sum())
        return int((as_bits(self._storage) != _SENTINEL[self.view.dtype]).sum()) - inside
