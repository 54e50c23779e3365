"""Loads, stores and atomics: each is checked against the region of its pointer's argument before it happens.

A pointer knows its argument by its type: the interpreter hands the type object on through offsets, broadcasts and casts. A pointer made
from an integer knows none; it may touch any tensor that is alive.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton._C.libtriton import interpreter as native
from triton.runtime import interpreter as upstream

from .bounds import OutOfBounds, Region, regions_of_tensors
from .casts import decode, encode, is_narrow, numpy_dtype

__all__ = ["ArgumentPointer", "Running", "patch"]

Array = NDArray[Any]


class ArgumentPointer(tl.pointer_type):  # type: ignore[misc]
    """A pointer into the region of one argument."""

    def __init__(self, element_ty: Any, region: Region) -> None:
        super().__init__(element_ty)
        self.region = region


class Running:
    """The launch that is running."""

    kernel: str = ""

    @classmethod
    def begin(cls, kernel: str) -> None:
        cls.kernel = kernel
        _views.clear()


#: Numpy arrays over regions, by region address and dtype; valid while a launch keeps its arguments alive.
_views: dict[tuple[int, int, str], Array] = {}


def _view(region: Region, dtype: np.dtype[Any]) -> Array:
    key = (region.low, region.high, dtype.char)
    view = _views.get(key)
    if view is None:
        count = (region.high - region.low) // dtype.itemsize
        raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(region.low)
        view = _views[key] = np.frombuffer(memoryview(raw), dtype=dtype)
    return view


def _refuse(region: Region, addresses: Array, outside: Array, size: int, access: str) -> None:
    first = int(addresses[outside][0])
    raise OutOfBounds(
        kernel=Running.kernel, program=upstream.interpreter_builder.grid_idx, argument=region.argument, access=access,
        count=int(outside.sum()), offset=(first - region.base) // size,
        allowed=((region.low - region.base) // size, (region.high - region.base) // size - 1))


def _inside(region: Region, addresses: Array, size: int) -> Array:
    # Addresses below the region wrap to huge offsets.
    return (addresses - np.uint64(region.low)) <= np.uint64(max(region.high - region.low - size, 0)) if region.high > region.low \
        else np.zeros(addresses.shape, dtype=bool)


def _checked(region: Region, addresses: Array, mask: Array | None, size: int, access: str) -> None:
    """Raise OutOfBounds unless every address that is not masked off lies in the region."""
    if addresses.size == 0:
        return
    limit = region.high - region.low - size
    if limit >= 0 and int((addresses - np.uint64(region.low)).max()) <= limit:
        return
    outside = ~_inside(region, addresses, size)
    if mask is not None:
        outside &= mask
    if outside.any():
        _refuse(region, addresses, outside, size, access)


def _nearest(regions: list[Region], address: int) -> Region:
    return min(regions, key=lambda r: max(r.low - address, address - r.high + 1, 0), default=Region("", 0, 0, 0))


def _checked_anywhere(addresses: Array, mask: Array | None, size: int, access: str) -> None:
    """The same for pointers that belong to no argument: any region will do."""
    active = addresses.ravel() if mask is None else addresses[mask]
    if active.size == 0:
        return
    regions = regions_of_tensors(int(active[0]))
    outside = np.ones(active.shape, dtype=bool)
    for region in regions:
        outside &= ~_inside(region, active, size)
    if outside.any():
        _refuse(_nearest(regions, int(active[outside][0])), active, outside, size, access)


def _mask_of(mask: Any, shape: tuple[int, ...]) -> Array | None:
    """The mask as an array; None where nothing is masked off."""
    if mask is None:
        return None
    data = np.asarray(mask if isinstance(mask, np.ndarray) else mask.data, dtype=bool)
    if data.all():
        return None
    return data if data.shape == shape else np.broadcast_to(data, shape)


def _check(pointers: Any, mask: Array | None, access: str) -> tuple[Region | None, np.dtype[Any]]:
    dtype = numpy_dtype(pointers.get_element_ty())
    region = getattr(pointers.dtype.scalar, "region", None)
    if region is None:
        _checked_anywhere(pointers.data, mask, dtype.itemsize, access)
    else:
        _checked(region, pointers.data, mask, dtype.itemsize, access)
    return region, dtype


def _indices(region: Region | None, addresses: Array, dtype: np.dtype[Any]) -> Array | None:
    """Where the addresses stand in the region, in elements; None where they are not whole elements of it."""
    if region is None or region.low % dtype.itemsize or region.high == region.low:
        return None
    offsets = (addresses - np.uint64(region.low)).view(np.int64)
    if dtype.itemsize == 1:
        return offsets
    if int(np.bitwise_or.reduce(offsets, axis=None)) & (dtype.itemsize - 1):
        return None
    return offsets >> (dtype.itemsize.bit_length() - 1)


def _load(self: Any, pointers: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
    shape = pointers.data.shape
    active = _mask_of(mask, shape)
    region, dtype = _check(pointers, active, "read")
    element = pointers.get_element_ty()
    if other is None and active is not None:
        other = upstream.TensorHandle(np.zeros(shape, dtype=dtype), element)
    index = _indices(region, pointers.data, dtype)
    if index is None or region is None:
        everywhere = np.ones(shape, dtype=bool) if active is None else np.ascontiguousarray(active)
        filler = np.zeros(shape, dtype=dtype) if other is None else other.data
        return upstream.TensorHandle(native.load(pointers.data, everywhere, filler, dtype), element)
    if active is None:
        return upstream.TensorHandle(_view(region, dtype)[index], element)
    out = np.array(np.broadcast_to(other.data, shape), dtype=dtype)
    out[active] = _view(region, dtype)[index[active]]
    return upstream.TensorHandle(out, element)


def _store(self: Any, pointers: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
    shape = pointers.data.shape
    active = _mask_of(mask, shape)
    region, dtype = _check(pointers, active, "write")
    index = _indices(region, pointers.data, dtype)
    data = np.broadcast_to(value.data, shape)
    if index is None or region is None:
        everywhere = np.ones(shape, dtype=bool) if active is None else np.ascontiguousarray(active)
        native.store(pointers.data, np.ascontiguousarray(data, dtype=dtype), everywhere)
    elif active is None:
        _view(region, dtype)[index] = data
    else:
        _view(region, dtype)[index[active]] = data[active]


def _load_all(self: Any, pointers: Any, *_: Any) -> Any:
    return _load(self, pointers, None, None)


def _store_all(self: Any, pointers: Any, value: Any, *_: Any) -> None:
    _store(self, pointers, value, None)


_atomic_cas = upstream.InterpreterBuilder.create_atomic_cas
_atomic_rmw = upstream.InterpreterBuilder.create_atomic_rmw


def _checked_cas(self: Any, pointers: Any, compare: Any, value: Any, sem: Any, scope: Any) -> Any:
    _check(pointers, None, "write")
    return _atomic_cas(self, pointers, compare, value, sem, scope)


def _checked_rmw(self: Any, operation: Any, pointers: Any, value: Any, mask: Any, sem: Any, scope: Any) -> Any:
    _check(pointers, _mask_of(mask, pointers.data.shape), "write")
    scalar = value.dtype.scalar
    if scalar.is_floating() and is_narrow(scalar):
        return _narrow_add(self, pointers, value, mask)
    return _atomic_rmw(self, operation, pointers, value, mask, sem, scope)


def _narrow_add(self: Any, pointers: Any, value: Any, mask: Any) -> Any:
    """Atomic addition in bf16, one lane after the other, rounded each time (upstream has none; addition is the only one sm_90 has)."""
    scalar = value.dtype.scalar
    old = np.zeros(pointers.data.shape, dtype=numpy_dtype(scalar))
    for place in np.ndindex(*pointers.data.shape):
        if mask is not None and not np.broadcast_to(mask.data, pointers.data.shape)[place]:
            continue
        lane = upstream.TensorHandle(pointers.data[place].reshape(1), pointers.dtype.scalar)
        old[place] = _load(self, lane, None, None).data[0]
        total = decode(old[place].reshape(1), scalar) + decode(value.data[place].reshape(1), scalar)
        _store(self, lane, upstream.TensorHandle(encode(total, scalar), scalar), None)
    return upstream.TensorHandle(old, scalar)


_bitcast = upstream.InterpreterBuilder.create_bitcast


def _bitcast_keeping_region(self: Any, source: Any, target_type: Any) -> Any:
    out = _bitcast(self, source, target_type)
    region = getattr(source.dtype.scalar, "region", None)
    if region is not None and target_type.scalar.is_ptr():
        out.dtype = ArgumentPointer(target_type.scalar.element_ty, region)
    return out


def patch() -> None:
    """Put these accesses into the interpreter's builder; tensor descriptors and block pointers go through them."""
    builder = upstream.InterpreterBuilder
    builder.create_masked_load, builder.create_masked_store = _load, _store
    builder.create_load, builder.create_store = _load_all, _store_all
    builder.create_atomic_cas, builder.create_atomic_rmw = _checked_cas, _checked_rmw
    builder.create_bitcast = _bitcast_keeping_region
