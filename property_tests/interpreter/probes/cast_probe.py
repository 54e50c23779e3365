"""Casts in the interpreter against torch, ml_dtypes and exact arithmetic. Every entry counts elements that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from patterns import FORMATS, NAN, Narrow, bits_of, probes_of, tensor

BLOCK = 1 << 17


@triton.jit
def converted(X, Y, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n).to(Y.dtype.element_ty), mask=o < n)


@triton.jit
def stored(X, Y, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n), mask=o < n)


@triton.jit
def rounded(X, Y, n, MODE: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(Y + o, tl.load(X + o, mask=o < n).to(Y.dtype.element_ty, fp_downcast_rounding=MODE), mask=o < n)


@triton.jit
def constants(Y, tiny: tl.constexpr):
    o = tl.arange(0, 16)
    tl.store(Y + o, tl.zeros((16,), tl.bfloat16) + tiny)


def run(kernel: Any, x: torch.Tensor, dtype: torch.dtype, **more: Any) -> torch.Tensor:
    y = torch.empty(x.numel(), dtype=dtype)
    for start in range(0, x.numel(), BLOCK):
        part = x[start:start + BLOCK]
        kernel[(1,)](part, y[start:start + BLOCK], part.numel(), BLOCK=BLOCK, **more)
    return y


def downcasts(narrow: Narrow) -> dict[str, int]:
    """Nearest casts, written three ways."""
    wrong = {}
    for name, values in probes_of(narrow).items():
        expected = narrow.nearest(values)
        wrong[f"{name}, torch against ml_dtypes"] = int((narrow.by_torch(values) != expected).sum())
        for how, kernel, more in (("to", converted, {}), ("store", stored, {}), ("rtne", rounded, {"MODE": "rtne"})):
            got = bits_of(run(kernel, tensor(values), narrow.torch, **more), narrow)
            wrong[f"{name}, {how}"] = int((got != expected).sum())
    kept = run(converted, tensor(NAN), narrow.torch).to(torch.float32)
    wrong["NaN"] = int((~torch.isnan(kept)).sum())
    return wrong


def cuts(narrow: Narrow) -> dict[str, int]:
    """Casts toward zero."""
    wrong = {}
    for name, values in probes_of(narrow).items():
        got = bits_of(run(rounded, tensor(values), narrow.torch, MODE="rtz"), narrow).view(narrow.numpy).astype(np.float64)
        expected = narrow.toward_zero(values.astype(np.float64))
        wrong[name] = int(((got != expected) | (np.signbit(got) != np.signbit(expected))).sum())
    return wrong


def upcasts(narrow: Narrow) -> int:
    """Every bit pattern to fp32."""
    patterns = narrow.patterns
    got = run(converted, tensor(patterns, narrow.torch), torch.float32)
    expected = torch.from_numpy(patterns.view(narrow.numpy).astype(np.float32))
    return int((~((got == expected) | (torch.isnan(got) & torch.isnan(expected)))).sum())


def between(old: Narrow, new: Narrow) -> int:
    """Every bit pattern of one narrow format to another; NaN need only stay NaN."""
    patterns = old.patterns
    values = patterns.view(old.numpy).astype(np.float32)
    got = bits_of(run(converted, tensor(patterns, old.torch), new.torch), new)
    same = (got == new.nearest(values)) | (np.isnan(values) & np.isnan(got.view(new.numpy).astype(np.float32)))
    return int((~same).sum())


def from_double(narrow: Narrow) -> int:
    """fp64 values next to halfway points, which two roundings in a row get wrong."""
    grid = narrow.values
    halfway = (grid[1:] + grid[:-1]) / 2
    wrong = 0
    for side in (np.inf, -np.inf):
        values = np.nextafter(halfway, side)
        got = bits_of(run(converted, tensor(values), narrow.torch), narrow).view(narrow.numpy).astype(np.float64)
        wrong += int((got != (grid[1:] if side > 0 else grid[:-1])).sum())
    return wrong


def integers() -> dict[str, int]:
    whole = np.concatenate([np.arange(-70000, 70000, 3), 2**np.arange(31) - 1, [2**31 - 1, -2**31]]).astype(np.int32)
    x = torch.from_numpy(whole)
    wrong = {f"int32 to {name}": int((run(converted, x, f.torch) != x.to(torch.float32).to(f.torch)).sum())
             for name, f in FORMATS.items() if name in ("bf16", "fp16")}
    values = torch.tensor([0.5, -1.99, 3e9, -3e9, float("nan"), float("inf"), -float("inf"), 2147483520.0])
    expected = torch.tensor([0, -1, 2**31 - 1, -2**31, 0, 2**31 - 1, -2**31, 2147483520], dtype=torch.int32)
    wrong["fp32 to int32"] = int((run(converted, values, torch.int32) != expected).sum())
    small = torch.arange(-300, 300, dtype=torch.float32) / 2
    wrong["bf16 to int32"] = int((run(converted, small.bfloat16(), torch.int32) != small.bfloat16().to(torch.int32)).sum())
    return wrong


def constant(value: float) -> float:
    y = torch.empty(16, dtype=torch.bfloat16)
    constants[(1,)](y, tiny=value)
    return float(y[0])


def probe() -> dict[str, Any]:
    pairs: list[tuple[str, str]] = [(a, b) for a in FORMATS for b in FORMATS if a != b]
    return {
        "down": {name: downcasts(f) for name, f in FORMATS.items()},
        "toward zero": {name: cuts(FORMATS[name]) for name in ("bf16", "fp16")},
        "up": {name: upcasts(f) for name, f in FORMATS.items()},
        "between": {f"{a} to {b}": between(FORMATS[a], FORMATS[b]) for a, b in pairs},
        "from fp64": {name: from_double(f) for name, f in FORMATS.items()},
        "integers": integers(),
        "bf16 constants": {str(v): constant(v) for v in (1e-7, 1.5, 0.1)},
    }


