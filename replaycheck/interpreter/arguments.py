"""The arguments of a launch: bound by name once a kernel, and turned into what a kernel sees on the device."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter as upstream
from triton.runtime.jit import _normalize_ty, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from replaycheck.contract.errors import KernelError

from .access import ArgumentPointer
from .bounds import region_of
from .casts import encode, numpy_dtype

__all__ = ["Parameters", "parameters_of"]

_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameters:
    """A kernel's parameters: names in order, defaults, those that are constexpr, and declared scalar types."""

    kernel: str
    defaults: dict[str, Any]
    constexprs: frozenset[str]
    declared: dict[str, str] = field(default_factory=dict)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values by parameter name, and the keyword arguments that are launch options. Raises KernelError naming a missing argument."""
        if len(args) > len(self.defaults):
            raise KernelError(f"kernel {self.kernel} takes {len(self.defaults)} arguments, got {len(args)}")
        bound = dict(self.defaults)
        bound.update(zip(self.defaults, args, strict=False))
        options = {}
        for name, value in kwargs.items():
            if name in bound:
                bound[name] = value
            else:
                options[name] = value
        for name, value in bound.items():
            if value is _REQUIRED:
                raise KernelError(f"kernel {self.kernel} is launched without argument {name}")
        return bound, options

    def interpreted(self, bound: dict[str, Any]) -> dict[str, Any]:
        """The values as the interpreter hands them to the kernel; pointers know what they may touch."""
        return {name: value if name in self.constexprs else _interpreted(name, value, self.declared.get(name))
                for name, value in bound.items()}


_known: dict[Any, Parameters] = {}


def parameters_of(function: Any) -> Parameters:
    """The parameters of an interpreted kernel."""
    found = _known.get(function.fn)
    if found is None:
        found = _known[function.fn] = _read_parameters(function.fn)
    return found


def _read_parameters(fn: Any) -> Parameters:
    signature = inspect.signature(fn)
    annotations = {name: _normalize_ty(parameter.annotation) for name, parameter in signature.parameters.items()
                   if parameter.annotation is not _REQUIRED}
    scalars = {name: kind for name, kind in annotations.items() if kind in tl.core.dtype.SINT_TYPES + tl.core.dtype.UINT_TYPES
               or kind[:1] in "iu" and kind[1:].isdigit() or kind in ("fp16", "bf16", "fp32", "fp64")}
    return Parameters(
        kernel=fn.__name__,
        defaults={name: parameter.default for name, parameter in signature.parameters.items()},
        constexprs=frozenset(name for name, kind in annotations.items() if "constexpr" in kind),
        declared=scalars)


def _scalar(value: float | int | bool, declared: str | None) -> Any:
    """A Python number as the 0-d tensor the device receives: fp32 for floats, the smallest of i32, i64, u64 for integers."""
    ty = tl.str_to_ty(declared or mangle_type(value), None)
    if ty.is_floating():
        return tl.tensor(upstream.TensorHandle(encode(np.array([value], dtype=np.float64), ty), ty), ty)
    return tl.tensor(upstream.TensorHandle(np.array([value]).astype(numpy_dtype(ty)), ty), ty)


def _pointer(name: str, tensor: Any) -> Any:
    base = tensor.base if isinstance(tensor, triton.runtime.jit.TensorWrapper) else tensor
    if not isinstance(base, torch.Tensor):
        raise KernelError(f"argument {name} has data_ptr but is a {type(base).__name__}, not a tensor")
    if base.device.type != "cpu":
        raise KernelError(f"argument {name} is on {base.device}; the interpreter runs on cpu tensors")
    region = region_of(name, base)
    ty = ArgumentPointer(tl.str_to_ty(mangle_type(tensor), None).element_ty, region)
    return tl.tensor(upstream.TensorHandle(np.array([base.data_ptr()], dtype=np.uint64), ty), ty)


def _descriptor(name: str, value: Any) -> Any:
    strides = [_scalar(stride, None) for stride in value.strides[:-1]]
    return upstream.interpreter_semantic.make_tensor_descriptor(
        base=_pointer(name, value.base), shape=[_scalar(extent, None) for extent in value.shape],
        strides=[*strides, tl.constexpr(1)], block_shape=[tl.constexpr(extent) for extent in value.block_shape],
        padding_option=value.padding)


def _interpreted(name: str, value: Any, declared: str | None) -> Any:
    if isinstance(value, (bool, int, float)):
        return _scalar(value, declared)
    if hasattr(value, "data_ptr"):
        return _pointer(name, value)
    if isinstance(value, TensorDescriptor):
        return _descriptor(name, value)
    if isinstance(value, tuple):
        parts = [_interpreted(f"{name}[{i}]", part, None) for i, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
