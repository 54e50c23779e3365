"""A launch in the interpreter: programs of the grid one after the other, on the caller's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from triton.runtime import interpreter as upstream
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import InterpreterError

from replaycheck.contract.errors import KernelError, ReplaycheckError

from . import recorder
from .access import Running
from .arguments import parameters_of

__all__ = ["patch"]


def _extents(kernel: str, grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    wanted = grid(bound) if callable(grid) else grid
    try:
        extents = [int(extent) for extent in wanted]
    except TypeError:
        raise KernelError(f"kernel {kernel} is launched on grid {wanted!r}, which is not a sequence of integers") from None
    if not 1 <= len(extents) <= 3:
        raise KernelError(f"kernel {kernel} is launched on a grid of {len(extents)} dimensions; it may have 1 to 3")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z


def _launch(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """Run an interpreted kernel over a grid. Raises OutOfBounds, or InterpreterError naming kernel and program."""
    if warmup:
        return
    parameters = parameters_of(function)
    bound, options = parameters.bind(args, kwargs)
    for hook in function.pre_run_hooks:
        hook(*args, **kwargs)
    recorder.observe(function, bound, options)
    values = parameters.interpreted(bound)
    Running.begin(parameters.kernel)
    _run_programs(parameters.kernel, function.rewrite(), values, _extents(parameters.kernel, grid, bound))


def _run_programs(kernel: str, rewritten: Any, values: dict[str, Any], extents: tuple[int, int, int]) -> None:
    builder = upstream.interpreter_builder
    builder.set_grid_dim(*extents)
    with np.errstate(all="ignore"):
        for x in range(extents[0]):
            for y in range(extents[1]):
                for z in range(extents[2]):
                    builder.grid_idx = (x, y, z)
                    try:
                        rewritten(**values)
                    except ReplaycheckError:
                        raise
                    except Exception as error:
                        raise InterpreterError(f"kernel {kernel}, program {(x, y, z)}: {type(error).__name__}: {error}") from error


def _no_benchmark(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
    """Every configuration is as fast as any other here, so that an autotuner takes its first one and runs nothing twice."""
    return [0.0]


def patch() -> None:
    """Launch kernels through this module from now on."""
    upstream.InterpretedFunction.run = _launch
    Autotuner._bench = _no_benchmark
