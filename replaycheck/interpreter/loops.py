"""Loops with runtime bounds: loop variables that behave as int32 scalars do on the device.

The interpreter runs `for i in range(...)` with Python integers, on which `i.to(tl.int64)` fails. Loop variables here are integers that
also answer to the methods of a scalar tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from triton.runtime import interpreter as upstream

__all__ = ["LoopVariable", "loop_range", "patch"]

_NAME = "replaycheck_loop_range"


class LoopVariable(int):
    """An integer with the casts of a scalar tensor; sums and products with integers are such integers too."""

    def __add__(self, other: Any) -> Any:
        return _again(int.__add__(self, other))

    def __sub__(self, other: Any) -> Any:
        return _again(int.__sub__(self, other))

    def __mul__(self, other: Any) -> Any:
        return _again(int.__mul__(self, other))

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Any:
        return _again(int.__rsub__(self, other))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(upstream.interpreter_semantic.to_tensor(int(self)), name)


def _again(value: Any) -> Any:
    return value if value is NotImplemented else LoopVariable(value)


def loop_range(*bounds: Any, **options: Any) -> Iterator[LoopVariable]:
    """Python's range over integers, scalar tensors or constexprs; compiler hints such as num_stages change nothing."""
    step = options.pop("step", None)
    plain = [int(getattr(bound, "value", bound)) for bound in bounds]
    if step is not None:
        plain = [*([0] if len(plain) == 1 else []), *plain, int(getattr(step, "value", step))]
    return map(LoopVariable, range(*plain))


class _Rewriter(type(upstream.FunctionRewriter.ast_transformer)):  # type: ignore[misc]
    """Upstream's rewriting of assignments, and of `for ... in range(...)`."""

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        call = node.iter
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range":
            call.func = ast.copy_location(ast.Name(id=_NAME, ctx=ast.Load()), call.func)
        return node


def patch() -> None:
    """Rewrite kernels with these loops from now on."""
    upstream.FunctionRewriter.ast_transformer = _Rewriter()
    # Rewritten functions find the interpreter's globals among their own.
    setattr(upstream, _NAME, loop_range)
