"""Which bytes a kernel may touch, and what is said when it touches others."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from replaycheck.contract.errors import KernelError

__all__ = ["OutOfBounds", "Region", "region_of", "regions_of_tensors", "restrict"]


class OutOfBounds(KernelError):
    """A kernel read or wrote outside its arguments; a write is refused as a whole.

    kernel, program (x, y, z), argument (empty for a pointer made from an integer); access: "read" or "write"; count: elements outside;
    offset: of the first one, in elements from the argument's pointer (from the nearest tensor where there is no argument).
    """

    def __init__(self, *, kernel: str, program: tuple[int, int, int], argument: str, access: str, count: int, offset: int,
                 allowed: tuple[int, int]) -> None:
        self.kernel, self.program, self.argument = kernel, program, argument
        self.access, self.count, self.offset = access, count, offset
        elements = "element" if count == 1 else "elements"
        where = f"argument {argument}" if argument else "every tensor, through a pointer that belongs to no argument"
        super().__init__(f"kernel {kernel}, program {program}: {access} of {count} {elements} outside {where}, "
                         f"first at element offset {offset} (allowed {allowed[0]} to {allowed[1]})")
        self.allowed = allowed

    def __reduce__(self) -> tuple[Callable[..., OutOfBounds], tuple[dict[str, Any]]]:
        names = ("kernel", "program", "argument", "access", "count", "offset", "allowed")
        return _again, ({name: getattr(self, name) for name in names},)


def _again(facts: dict[str, Any]) -> OutOfBounds:
    return OutOfBounds(**facts)


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes low..high (high excluded) that may be touched through `argument`, whose pointer is `base`."""

    argument: str
    base: int
    low: int
    high: int


#: By storage address: the storage, held weakly, and the byte extents registered in it.
_restricted: dict[int, tuple[StorageWeakRef, list[tuple[int, int]]]] = {}


def _extent(view: Tensor) -> tuple[int, int]:
    span = sum((size - 1) * stride for size, stride in zip(view.shape, view.stride(), strict=True)) + 1 if view.numel() else 0
    return view.data_ptr(), view.data_ptr() + span * view.element_size()


def _registered(address: int) -> list[tuple[int, int]]:
    entry = _restricted.get(address)
    if entry is None:
        return []
    if entry[0].expired():  # type: ignore[no-untyped-call]  # the storage is gone and its address may belong to another
        del _restricted[address]
        return []
    return entry[1]


def restrict(tensor: Tensor) -> None:
    """From now on kernels may touch, of this tensor's storage, only the bytes of views registered like this.

    Without it a tensor argument may be touched over its whole storage. Registration ends with the storage.
    """
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return
    extents = _registered(storage.data_ptr())
    if not extents:
        _restricted[storage.data_ptr()] = (StorageWeakRef(storage), extents)  # type: ignore[no-untyped-call]
    extents.append(_extent(tensor))


def region_of(argument: str, tensor: Tensor) -> Region:
    """What a kernel may touch through a tensor argument: the registered view its pointer lies in, or its storage if it has none."""
    storage, base = tensor.untyped_storage(), tensor.data_ptr()
    low, high = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    extents = _registered(low)
    if not extents:
        return Region(argument, base, low, high)
    holding = [(first, last) for first, last in extents if first <= base < last]
    first, last = max(holding, key=lambda pair: pair[1] - pair[0], default=(base, base))
    return Region(argument, base, first, last)


#: Storages met when pointers of no argument were looked up, held weakly, and what may be touched of each.
_met: list[tuple[StorageWeakRef, Region]] = []


def _still_met() -> list[Region]:
    _met[:] = [(storage, region) for storage, region in _met if not storage.expired()]  # type: ignore[no-untyped-call]
    return [region for _, region in _met]


def regions_of_tensors(address: int) -> list[Region]:
    """What may be touched by pointers that belong to no argument: every tensor alive, of registered storages their views alone.

    Looked up anew only where `address` lies in none that was met before.
    """
    regions = _still_met()
    if any(region.low <= address < region.high for region in regions):
        return regions
    _met.clear()
    for tensor in [found for found in gc.get_objects() if issubclass(type(found), Tensor)]:
        if tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.untyped_storage().nbytes():
            _met.append((StorageWeakRef(tensor.untyped_storage()), region_of("", tensor)))  # type: ignore[no-untyped-call]
    return _still_met()
