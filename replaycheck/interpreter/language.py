"""The language patched once for the life of the process, where the interpreter patches it at every launch and every device call."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton._utils import validate_block_shape
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter as upstream

from .access import ArgumentPointer
from .loops import loop_range

__all__ = ["patch"]

_WRAPPER_CODE = tl.core.builtin(lambda: None).__code__


def _bind_builtins(owner: ModuleType | type) -> None:
    """Give every builtin of a module or class the interpreter's semantic."""
    semantic = upstream.interpreter_semantic
    for name, member in inspect.getmembers(owner, tl.core.is_builtin):
        raw = member.__wrapped__ if getattr(member, "__code__", None) is _WRAPPER_CODE else member

        def bound(*args: Any, _raw: Any = raw, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return _raw(*args, **kwargs)

        setattr(owner, name, bound)


def _index(self: Any) -> int:
    # int() of a one-element array is an error from numpy 2.4 on.
    return int(np.asarray(self.handle.data).reshape(()))


#: By extents: the shape of the type (language tuple of integers), the shape a tensor shows (of constexprs), the element count.
_shapes: dict[tuple[int, ...], tuple[Any, Any, int]] = {}


def _shape_of(extents: tuple[int, ...]) -> tuple[Any, Any, int]:
    found = _shapes.get(extents)
    if found is None:
        count = validate_block_shape(extents)
        shown = tl.core.tuple([tl.constexpr(extent) for extent in extents])
        found = _shapes[extents] = (tl.core.tuple(extents), shown, count)
    return found


def _extents(shape: Any) -> tuple[int, ...]:
    return tuple([extent if type(extent) is int else getattr(extent, "value", extent) for extent in getattr(shape, "values", shape)])


def _block_type_init(self: Any, element_ty: Any, shape: Any) -> None:
    self.extents = _extents(shape)
    if not self.extents:
        raise TypeError("0d block_type is forbidden")
    self.element_ty = element_ty
    self.shape, _, self.numel = _shape_of(self.extents)
    self.name = f"<{self.extents}, {element_ty}>"


_NO_SHAPE, _ONE = tl.core.tuple([]), tl.constexpr(1)


def _tensor_init(self: Any, handle: Any, type: Any) -> None:
    self.handle = handle
    self.type = type
    self.dtype = type.scalar
    if type.is_block():
        _, self.shape, count = _shape_of(type.extents)
        self.numel = tl.constexpr(count)
    else:
        self.shape, self.numel = _NO_SHAPE, _ONE


_check_types = TritonSemantic.binary_op_type_checking_impl
_broadcast = TritonSemantic.broadcast_impl_value


def _check_types_quickly(self: Any, lhs: Any, rhs: Any, allow_lhs_ptr: bool = False, allow_rhs_ptr: bool = False,
                         arithmetic_check: bool = True, div_or_mod: bool = False) -> Any:
    """Upstream's promotion, past which two tensors of one arithmetic type go straight."""
    if type(lhs) is type(rhs) is tl.core.tensor and lhs.dtype is rhs.dtype and not div_or_mod and not lhs.dtype.is_ptr():
        return _broadcast_quickly(self, lhs, rhs)
    return _check_types(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)


def _broadcast_quickly(self: Any, lhs: Any, rhs: Any) -> Any:
    """Upstream's broadcasting, past which two tensors of one shape go straight."""
    left, right = lhs.type, rhs.type
    if getattr(left, "extents", ()) == getattr(right, "extents", ()):
        return lhs, rhs
    return _broadcast(self, lhs, rhs)


_ATOMS = {tl.core.tensor, tl.dtype, tl.block_type, tl.pointer_type, ArgumentPointer, int, float, bool, str, type(None)}
_unwrap = tl.core._unwrap_if_constexpr


def _unwrap_quickly(value: Any) -> Any:
    return value if type(value) in _ATOMS else _unwrap(value)


def _device_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self.rewrite()(*args, **kwargs)


def patch() -> None:
    """Patch the language for good. A process that interprets kernels does not compile them, so nothing needs it unpatched."""
    scope = upstream._LangPatchScope()
    for language in (tl, tl.core):
        upstream._patch_lang_core(language, scope)
        _bind_builtins(language)
        language.range = loop_range
    for owner in (tl.core.tensor, tl.math, tl.core.tensor_descriptor_base):
        _bind_builtins(owner)
    upstream._patch_lang_tensor(tl.core.tensor, scope)
    tl.core.tensor.__index__ = _index
    tl.core.tensor.__init__ = _tensor_init
    tl.block_type.__init__ = _block_type_init
    TritonSemantic.binary_op_type_checking_impl = _check_types_quickly
    TritonSemantic.broadcast_impl_value = _broadcast_quickly
    tl.core._unwrap_if_constexpr = _unwrap_quickly
    upstream.InterpretedFunction.__call__ = _device_call
    # Overflow checks feed an assertion that is off; they would triple the cost of index arithmetic.
    object.__setattr__(upstream.interpreter_builder, "options", upstream.InterpreterOptions(
        sanitize_overflow=False, allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")))
