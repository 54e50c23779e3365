"""The language patched once for the life of the process, where the interpreter patches it at every launch and every device call."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton._utils import validate_block_shape
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


#: By extents: the shape of the type (language tuple of integers), the element count, and both as a tensor shows them (constexprs).
_shapes: dict[tuple[int, ...], tuple[Any, int, Any, Any]] = {}


def _shape_of(extents: tuple[int, ...]) -> tuple[Any, int, Any, Any]:
    found = _shapes.get(extents)
    if found is None:
        count = validate_block_shape(extents)
        shown = tl.core.tuple([tl.constexpr(extent) for extent in extents])
        found = _shapes[extents] = (tl.core.tuple(extents), count, shown, tl.constexpr(count))
    return found


def _extents(shape: Any) -> tuple[int, ...]:
    return tuple([extent if type(extent) is int else getattr(extent, "value", extent) for extent in getattr(shape, "values", shape)])


def _block_type_init(self: Any, element_ty: Any, shape: Any) -> None:
    self.extents = _extents(shape)
    if not self.extents:
        raise TypeError("0d block_type is forbidden")
    self.element_ty = element_ty
    self.shape, self.numel, self.shown_shape, self.shown_numel = _shape_of(self.extents)
    self.name = f"<{self.extents}, {element_ty}>"


_NO_SHAPE, _ONE = tl.core.tuple([]), tl.constexpr(1)


def _tensor_init(self: Any, handle: Any, type: Any) -> None:
    self.handle = handle
    self.type = type
    if isinstance(type, tl.block_type):
        self.dtype, self.shape, self.numel = type.element_ty, type.shown_shape, type.shown_numel
    else:
        self.dtype, self.shape, self.numel = type, _NO_SHAPE, _ONE


_ITEM_SIZES = {**{f"{sign}int{8 * size}": size for sign in ("", "u") for size in (1, 2, 4, 8)},
               **{f"fp{8 * size}": size for size in (2, 4, 8)}, "int1": 1, "bf16": 2, "fp8e4nv": 1, "fp8e5": 1}


def _handle_init(self: Any, data: Any, dtype: Any, attr: Any = None) -> None:
    self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr
    if data.itemsize > _ITEM_SIZES.get(dtype.name, 8):
        raise ValueError(f"data of type {data.dtype} cannot stand for {dtype}")


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
    upstream.TensorHandle.__init__ = _handle_init
    tl.core._unwrap_if_constexpr = _unwrap_quickly
    upstream.InterpretedFunction.__call__ = _device_call
    # Overflow checks feed an assertion that is off; they would triple the cost of index arithmetic.
    object.__setattr__(upstream.interpreter_builder, "options", upstream.InterpreterOptions(
        sanitize_overflow=False, allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")))
