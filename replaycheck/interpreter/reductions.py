"""Reductions and scans: narrow formats rounded at every addition, any combine function on whole slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter as upstream

from .casts import decode, encode, numpy_dtype

__all__ = ["fold", "patch", "reduce", "scan"]

Array = NDArray[Any]
#: One slice of every operand in, one slice of every result out. Slices keep the reduced axis, with extent one or more.
Combine = Callable[[list[Array], list[Array]], list[Array]]


def _rounded_each_time(triton_type: Any) -> bool:
    """Formats whose sums the device rounds after every addition, while numpy would keep them in fp32."""
    return bool(triton_type.is_floating() and triton_type.primitive_bitwidth < 32)


def _tensor(data: Array, triton_type: Any, *, scalar: bool = False) -> Any:
    """An interpreter tensor; scalar: data of one element as a 0-d tensor."""
    data = np.asarray(data, dtype=numpy_dtype(triton_type))
    if scalar or data.ndim == 0:
        return tl.core.tensor(upstream.TensorHandle(data.reshape(1), triton_type), triton_type)
    return tl.core.tensor(upstream.TensorHandle(data, triton_type), tl.block_type(triton_type, list(data.shape)))


def _slices(parts: list[Array], axis: int, selection: slice) -> list[Array]:
    index = tuple(selection if i == axis else slice(None) for i in range(parts[0].ndim))
    return [part[index] for part in parts]


def fold(parts: list[Array], axis: int, combine: Combine) -> list[Array]:
    """Reduce `axis` to extent one in a balanced tree of neighbours; order is kept, so combine need not commute."""
    while (extent := parts[0].shape[axis]) > 1:
        even = extent - extent % 2
        last = _slices(parts, axis, slice(even, extent))
        parts = combine(_slices(parts, axis, slice(0, even, 2)), _slices(parts, axis, slice(1, even, 2)))
        if even < extent:
            parts = [np.concatenate(pair, axis=axis) for pair in zip(parts, last, strict=True)]
    return parts


def _accumulate(parts: list[Array], axis: int, combine: Combine) -> list[Array]:
    """Every prefix of `axis`, combined one after the other."""
    running = _slices(parts, axis, slice(0, 1))
    prefixes = [running]
    for i in range(1, parts[0].shape[axis]):
        running = combine(running, _slices(parts, axis, slice(i, i + 1)))
        prefixes.append(running)
    return [np.concatenate(column, axis=axis) for column in zip(*prefixes, strict=True)]


def _by_value(operation: Callable[[Array, Array], Array], triton_type: Any) -> Combine:
    """A combine of one narrow operand that rounds its result."""
    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        return [encode(operation(decode(left[0], triton_type), decode(right[0], triton_type)), triton_type)]
    return combine


def _by_kernel(function: Callable[..., Any], types: Sequence[Any]) -> Combine:
    """A combine that runs a kernel's own function on whole slices."""
    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        operands = [_tensor(part, ty) for half in (left, right) for part, ty in zip(half, types, strict=True)]
        out = function(*operands)
        out = out if isinstance(out, (tuple, list)) else getattr(out, "values", None) or (out,)
        return [np.broadcast_to(_data(value, ty), left[0].shape) for value, ty in zip(out, types, strict=True)]
    return combine


def _data(value: Any, triton_type: Any) -> Array:
    if not isinstance(value, tl.core.tensor):
        value = upstream.interpreter_semantic.to_tensor(value)
    return np.asarray(upstream.interpreter_semantic.cast(value, triton_type).handle.data)


def _arg_extreme(data: list[Array], triton_type: Any, axis: int, find: Callable[..., Array]) -> list[Array]:
    """The first extreme of data[0], and what stands beside it in data[1]."""
    place = np.expand_dims(find(decode(data[0], triton_type), axis=axis), axis)
    return [np.take_along_axis(part, place, axis) for part in data]


def _reduced(operands: list[Any], axis: int, function: Any) -> list[Array]:
    """The reduced data of every operand, `axis` kept with extent one."""
    standard = tl.standard
    types = [operand.dtype for operand in operands]
    data = [operand.handle.data for operand in operands]
    first, ty = data[0], types[0]
    if function in (standard._argmax_combine_tie_break_left, standard._argmax_combine_tie_break_fast):
        return _arg_extreme(data, ty, axis, np.argmax)
    if function in (standard._argmin_combine_tie_break_left, standard._argmin_combine_tie_break_fast):
        return _arg_extreme(data, ty, axis, np.argmin)
    if function is standard._elementwise_max:
        return [encode(np.fmax.reduce(decode(first, ty), axis=axis, keepdims=True), ty)]
    if function is standard._elementwise_min:
        return [encode(np.fmin.reduce(decode(first, ty), axis=axis, keepdims=True), ty)]
    if function is standard._sum_combine:
        if _rounded_each_time(ty):
            return fold([first], axis, _by_value(np.add, ty))
        return [np.sum(first, axis=axis, keepdims=True)]
    return fold(data, axis, _by_kernel(function, types))


def reduce(input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
    """`tl.reduce` in the interpreter. Raises ValueError where the axis does not exist."""
    several = isinstance(input, (tuple, list, tl.core.tuple))
    operands = list(input) if several else [input]
    rank = len(operands[0].shape)
    axis = _plain(axis)
    if axis is not None and not -rank <= axis < rank:
        raise ValueError(f"axis {axis} out of bounds for a tensor of {rank} dimensions")
    everything = axis is None
    if everything:
        operands = [_tensor(operand.handle.data.reshape(-1), operand.dtype) for operand in operands]
        axis = 0
    results = []
    types = [operand.dtype for operand in operands]
    for data, ty in zip(_reduced(operands, axis % max(1, len(operands[0].shape)), combine_fn), types, strict=True):
        shape = list(data.shape)
        if _plain(keep_dims):
            shape = [1] * rank if everything else shape
        else:
            del shape[axis]
        results.append(_tensor(data.reshape(shape), ty, scalar=not shape))
    return tuple(results) if several else results[0]


def _scanned(operands: list[Any], axis: int, function: Any) -> list[Array]:
    types = [operand.dtype for operand in operands]
    data = [operand.handle.data for operand in operands]
    known = {tl.standard._sum_combine: np.add, tl.standard._prod_combine: np.multiply}
    operation = known.get(function)
    if operation is None:
        return _accumulate(data, axis, _by_kernel(function, types))
    if _rounded_each_time(types[0]):
        return _accumulate(data, axis, _by_value(operation, types[0]))
    return [operation.accumulate(data[0], axis=axis, dtype=data[0].dtype if data[0].dtype != np.bool_ else np.int64)]


def scan(input: Any, axis: int, combine_fn: Any, reverse: bool = False, **_: Any) -> Any:
    """`tl.associative_scan` in the interpreter. Raises ValueError where the axis does not exist."""
    several = isinstance(input, (tuple, list, tl.core.tuple))
    operands = list(input) if several else [input]
    rank, axis = len(operands[0].shape), _plain(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} out of bounds for a tensor of {rank} dimensions")
    axis %= rank
    turned = bool(_plain(reverse))
    if turned:
        operands = [_tensor(np.flip(operand.handle.data, axis), operand.dtype) for operand in operands]
    out = _scanned(operands, axis, combine_fn)
    results = [_tensor(np.ascontiguousarray(np.flip(data, axis)) if turned else data, operand.dtype)
               for data, operand in zip(out, operands, strict=True)]
    return tuple(results) if several else results[0]


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def patch() -> None:
    """Put these into the language, where the interpreter has its own."""
    for module in (tl, tl.core):
        module.reduce = reduce
        module.associative_scan = scan
    tl.core.tensor.reduce = reduce
    tl.core.tensor.associative_scan = scan
