"""Launches seen by the interpreter, told so that another process can compile exactly what ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["OPTIONS", "Launch", "observe", "record"]

#: Options of a launch that change what is compiled.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One way a kernel was launched, as the compiler distinguishes them. JSON-able.

    module, file, qualname: where the kernel is found. signature: parameter -> type ("*fp32", "i32", "constexpr", ...; a nested list for a
    tuple). constexprs: path -> value, where a path is a parameter name, or name.index inside a tuple; types and functions are objects with
    the key "dtype" or "function". divisible: paths of pointers and integers divisible by 16. options: those of OPTIONS that were given.
    """

    module: str
    file: str
    qualname: str
    signature: dict[str, Any]
    constexprs: dict[str, Any] = field(default_factory=dict)
    divisible: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Launch:
        return Launch(**{**data, "divisible": tuple(data.get("divisible", ()))})

    @property
    def key(self) -> str:
        """The same string for the same launch."""
        return json.dumps(self.to_json(), sort_keys=True)


_records: list[tuple[list[Launch], set[str]]] = []
_binders: dict[Any, Any] = {}


@contextmanager
def record() -> Iterator[list[Launch]]:
    """Collect the distinct launches of the interpreter in this process while the context is open. May be nested."""
    launches: list[Launch] = []
    entry = (launches, set[str]())
    _records.append(entry)
    try:
        yield launches
    finally:
        _records[:] = [other for other in _records if other is not entry]


def observe(function: Any, bound: dict[str, Any], options: dict[str, Any]) -> None:
    """Tell the open records of a launch of an interpreted kernel."""
    if not _records:
        return
    launch = _describe(function, bound, options)
    key = launch.key
    for launches, seen in _records:
        if key not in seen:
            seen.add(key)
            launches.append(launch)


def _describe(function: Any, bound: dict[str, Any], options: dict[str, Any]) -> Launch:
    fn = function.fn
    signature, constexprs, divisible = {}, {}, []
    for name, (kind, trait) in _specialize(function, bound).items():
        signature[name] = _plain_type(kind)
        for path, leaf, value in _leaves(name, kind, bound[name]):
            if leaf == "constexpr":
                constexprs[path] = _plain_value(value)
        divisible += [path for path, leaf, _ in _leaves(name, trait, bound[name]) if isinstance(leaf, str) and "D" in leaf]
    return Launch(module=fn.__module__, file=fn.__code__.co_filename, qualname=fn.__qualname__, signature=signature, constexprs=constexprs,
                  divisible=tuple(divisible), options={name: options[name] for name in OPTIONS if options.get(name) is not None})


def _specialize(function: Any, bound: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Type and trait of every argument, as Triton's own launcher for sm_90 finds them."""
    binder = _binders.get(function.fn)
    if binder is None:
        binder = _binders[function.fn] = _binder(function)
    _, specialization, _ = binder(**bound)
    return dict(zip(bound, ((kind, trait) for kind, trait in specialization), strict=True))


def _binder(function: Any) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime.jit import JITFunction, create_function_from_signature

    names = ("do_not_specialize", "do_not_specialize_on_alignment")
    jit = JITFunction(function.fn, **{name: function.kwargs[name] for name in names if function.kwargs.get(name)})
    return create_function_from_signature(jit.signature, jit.params, CUDABackend(GPUTarget("cuda", 90, 32)))


def _leaves(path: str, kind: Any, value: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(kind, (tuple, list)):
        for i, part in enumerate(kind):
            yield from _leaves(f"{path}.{i}", part, value[i])
    else:
        yield path, kind, value


def _plain_type(kind: Any) -> Any:
    return [_plain_type(part) for part in kind] if isinstance(kind, (tuple, list)) else kind


def _plain_value(value: Any) -> Any:
    """A constexpr as JSON. What cannot be told is told as an object with the key "unknown", and its launch is not compiled."""
    import triton.language as tl

    if isinstance(value, tl.constexpr):
        return _plain_value(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tl.dtype):
        return {"dtype": value.name}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_plain_value(part) for part in value]}
    fn = getattr(value, "fn", None)
    if callable(fn):
        return {"function": [fn.__module__, fn.__code__.co_filename, fn.__qualname__]}
    return {"unknown": type(value).__name__}
