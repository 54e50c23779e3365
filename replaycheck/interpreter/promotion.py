"""The operands of an element-wise operation brought to one type and shape, as the language defines it but without its cost.

Upstream turns every number into a tensor and every tensor to full size before each operation, which is most of what a launch costs.
Here numpy broadcasts inside the operation: operands carry their full type over data of their own size, and only results are full size.
Whatever is not plain arithmetic on numbers, blocks and pointers goes the upstream way, errors included.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from numpy.typing import NDArray
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter as upstream

__all__ = ["patch"]

_upstream_check = TritonSemantic.binary_op_type_checking_impl
_upstream_broadcast = TritonSemantic.broadcast_impl_value
_upstream_cast = TritonSemantic.cast

_NUMBERS = (bool, int, float)
#: By (type of the left operand, is it a number, same for the right, division): the common type.
_common: dict[tuple[str, bool, str, bool, bool], Any] = {}
#: One-element data of number constants, by type and number; dropped when many have gathered.
_constants: dict[tuple[str, type, Any], NDArray[Any]] = {}
_MOST_CONSTANTS = 4096
#: Block types of element types other than pointers.
_blocks: dict[tuple[str, tuple[int, ...]], Any] = {}


def _number_type(self: Any, number: float | int | bool) -> Any:
    """The scalar type the language gives a Python number."""
    if type(number) is int and -2**31 <= number < 2**31:
        return tl.int32
    if type(number) is float and (number == 0 or 1e-37 < abs(number) < 1e38):
        return tl.float32
    if type(number) is bool:
        return tl.int1
    return self.to_tensor(number).dtype


def _common_type(self: Any, left: Any, left_number: bool, right: Any, right_number: bool, division: bool) -> Any:
    key = (left.name, left_number, right.name, right_number, division)
    found = _common.get(key)
    if found is None:
        found = _common[key] = self.computation_type_impl(left, left_number, right, right_number, division)
    return found


def _fits(number: float | int | bool, triton_type: Any) -> bool:
    """Whether a number may meet a tensor of this type; upstream has the words for those that may not."""
    if not triton_type.is_int():
        return True
    return bool(triton_type.get_int_min_value() <= number <= triton_type.get_int_max_value())


def _constant(self: Any, number: float | int | bool, triton_type: Any) -> Any:
    key = (triton_type.name, type(number), number)
    data = _constants.get(key)
    if data is None:
        if len(_constants) >= _MOST_CONSTANTS:
            _constants.clear()
        data = _constants[key] = self.scalar_constant(number, dtype=triton_type).handle.data
        data.flags.writeable = False
    return tl.core.tensor(upstream.TensorHandle(data, triton_type), triton_type)


def _block_of(element_ty: Any, extents: tuple[int, ...]) -> Any:
    if element_ty.is_ptr():
        return tl.block_type(element_ty, extents)
    found = _blocks.get((element_ty.name, extents))
    if found is None:
        found = _blocks[element_ty.name, extents] = tl.block_type(element_ty, extents)
    return found


def _seen_as(tensor: Any, extents: tuple[int, ...]) -> Any:
    """The tensor under a larger type, its data left at a size that broadcasts to it."""
    data = tensor.handle.data
    if data.size == 1:
        data = data.reshape((1,) * len(extents))
    element = tensor.dtype
    return tl.core.tensor(upstream.TensorHandle(data, tensor.handle.dtype.scalar), _block_of(element, extents))


def _one_shape(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Both under the common shape; None where upstream must decide."""
    here = getattr(left.type, "extents", ())
    there = getattr(right.type, "extents", ())
    if here == there:
        return left, right
    if not here:
        return _seen_as(left, there), right
    if not there:
        return left, _seen_as(right, here)
    if len(here) != len(there):
        return None
    common = []
    for a, b in zip(here, there, strict=True):
        if a != b and a != 1 and b != 1:
            return None
        common.append(b if a == 1 else a)
    extents = tuple(common)
    return (left if here == extents else _seen_as(left, extents)), (right if there == extents else _seen_as(right, extents))


def _quick(self: Any, lhs: Any, rhs: Any, left_pointer: bool, right_pointer: bool, arithmetic: bool, division: bool) -> Any:
    left_number, right_number = type(lhs) in _NUMBERS, type(rhs) in _NUMBERS
    if not (left_number or type(lhs) is tl.core.tensor) or not (right_number or type(rhs) is tl.core.tensor):
        return None
    left = _number_type(self, lhs) if left_number else lhs.dtype
    right = _number_type(self, rhs) if right_number else rhs.dtype
    if left.is_ptr() or right.is_ptr():
        pointer, other, allowed = (left, right, left_pointer) if left.is_ptr() else (right, left, right_pointer)
        if not allowed or other.is_ptr() or not other.is_int():
            return None
        left_type, right_type = left, right
    elif arithmetic:
        left_type = right_type = _common_type(self, left, left_number, right, right_number, division)
        if left_number and not _fits(lhs, left_type) or right_number and not _fits(rhs, left_type):
            return None
    else:
        return None
    lhs = _constant(self, lhs, left_type) if left_number else _cast(self, lhs, left_type)
    rhs = _constant(self, rhs, right_type) if right_number else _cast(self, rhs, right_type)
    return _one_shape(lhs, rhs)


def _check(self: Any, lhs: Any, rhs: Any, allow_lhs_ptr: bool = False, allow_rhs_ptr: bool = False, arithmetic_check: bool = True,
           div_or_mod: bool = False) -> Any:
    found = _quick(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)
    return found if found is not None else _upstream_check(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)


def _cast(self: Any, input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:
    if input.dtype is dst_ty:
        return input
    return _upstream_cast(self, input, dst_ty, fp_downcast_rounding)


def _broadcast(self: Any, lhs: Any, rhs: Any) -> Any:
    if getattr(lhs.type, "extents", ()) == getattr(rhs.type, "extents", ()):
        return lhs, rhs
    return _upstream_broadcast(self, lhs, rhs)


def patch() -> None:
    """Promote operands this way in the interpreter's semantic."""
    TritonSemantic.binary_op_type_checking_impl = _check
    TritonSemantic.broadcast_impl_value = _broadcast
    TritonSemantic.cast = _cast
