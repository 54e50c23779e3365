"""Reductions and scans against exact sums, torch, and sums rounded one addition at a time. Entries count results that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from patterns import FORMATS

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "fp32": torch.float32}
ROWS, WIDTH = 16, 32


@triton.jit
def reduced(X, SUM, MAX, MIN, AMAX, AMIN, AXIS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, WIDTH)
    x = tl.load(X + r[:, None] * WIDTH + c[None, :])
    o = r if AXIS == 1 else c
    tl.store(SUM + o, tl.sum(x, axis=AXIS))
    tl.store(MAX + o, tl.max(x, axis=AXIS))
    tl.store(MIN + o, tl.min(x, axis=AXIS))
    tl.store(AMAX + o, tl.argmax(x, axis=AXIS))
    tl.store(AMIN + o, tl.argmin(x, axis=AXIS))


@triton.jit
def everything(X, O, N: tl.constexpr):
    x = tl.load(X + tl.arange(0, N))
    tl.store(O, tl.sum(x))
    tl.store(O + 1, tl.max(x))
    kept = tl.sum(tl.reshape(x, (2, N // 2)), axis=1, keep_dims=True)
    tl.store(O + 2 + tl.arange(0, 2)[:, None], kept)


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def running(X, O, REVERSE: tl.constexpr, OWN: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, N)
    x = tl.load(X + o)
    if OWN:
        tl.store(O + o, tl.associative_scan(x, 0, plus, reverse=REVERSE))
    else:
        tl.store(O + o, tl.cumsum(x, 0, reverse=REVERSE))


@triton.jit
def compose(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def recurrence(A, B, O, LAST, ROWS: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(A + o)
    b = tl.load(B + o)
    _, states = tl.associative_scan((a, b), 1, compose)
    tl.store(O + o, states)
    _, last = tl.reduce((a, b), 1, compose)
    tl.store(LAST + tl.arange(0, ROWS), last)


def whole_numbers(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Integers small enough that every partial sum of 32 is exact in the format."""
    low, high = {"bf16": (-7, 8), "fp16": (-60, 61), "fp32": (-999, 999), "e4m3": (0, 1), "e5m2": (0, 1)}[name]
    x = torch.randint(low, high, shape, generator=torch.Generator().manual_seed(2)).float()
    if name in ("e4m3", "e5m2"):                       # at most 8 ones of 32, and the rest zeros
        x[..., ::4] = 1.0
    return x


def against_exact(name: str, axis: int) -> dict[str, int]:
    x = whole_numbers(name, (ROWS, WIDTH))
    if axis == 0 and name in ("e4m3", "e5m2"):
        x[8:] = 0
    count = ROWS if axis == 1 else WIDTH
    outs = [torch.empty(count) for _ in range(3)] + [torch.empty(count, dtype=torch.int32) for _ in range(2)]
    reduced[(1,)](x.to(DTYPES[name]), *outs, AXIS=axis, ROWS=ROWS, WIDTH=WIDTH)
    wanted = [x.sum(axis), x.amax(axis), x.amin(axis), torch.from_numpy(x.numpy().argmax(axis)), torch.from_numpy(x.numpy().argmin(axis))]
    return {what: int((out != want).sum()) for what, out, want in zip(("sum", "max", "min", "argmax", "argmin"), outs, wanted, strict=True)}


def rounding_of_sums(name: str) -> dict[str, float]:
    """A sum of 256 random numbers against the exact one, in units of eight roundings; and 256 + 7 (2048 + 7), where rounding at every
    addition and rounding once give different numbers."""
    unit, large = {"bf16": (2.0**-8, 256.0), "fp16": (2.0**-11, 2048.0)}[name]
    x = torch.rand(256, generator=torch.Generator().manual_seed(4)).to(DTYPES[name])
    out, few = torch.empty(4), torch.empty(4)
    everything[(1,)](x, out, N=256)
    everything[(1,)](torch.tensor([large, *[1.0] * 7]).to(DTYPES[name]), few, N=8)
    exact = float(x.double().sum())
    once = torch.tensor(large + 7).to(DTYPES[name])
    return {"outside the format": int(float(out[0]) not in FORMATS[name].values), "bound": abs(float(out[0]) - exact) / (8 * unit * exact),
            "large and ones": float(few[0]) - large, "rounded once": float(once) - large}


def scans(name: str, *, reverse: bool, own: bool) -> int:
    """Prefix sums of small integers, and of random numbers one rounded addition after the other (tl.cumsum takes bf16 in fp32)."""
    wrong = 0
    for x in (whole_numbers(name, (WIDTH,)), torch.rand(WIDTH, generator=torch.Generator().manual_seed(8))):
        x = x.to(DTYPES[name])
        out = torch.empty(WIDTH, dtype=torch.float32 if name == "bf16" and not own else x.dtype)
        running[(1,)](x, out, REVERSE=reverse, OWN=own, N=WIDTH)
        order = x.flip(0) if reverse else x
        total, prefixes = None, []
        for value in order:
            total = value.float() if total is None else (total + value.float()).to(out.dtype).float()
            prefixes.append(total)
        expected = torch.stack(prefixes)
        wrong += int((out.float() != (expected.flip(0) if reverse else expected)).sum())
    return wrong


def recurrences() -> dict[str, float]:
    """A linear recurrence as an associative scan and as a reduction, against a loop in float64."""
    generator = torch.Generator().manual_seed(6)
    a, b = torch.rand(8, 64, generator=generator), torch.randn(8, 64, generator=generator)
    states, last = torch.empty(8, 64), torch.empty(8)
    recurrence[(1,)](a, b, states, last, ROWS=8, N=64)
    state, expected = torch.zeros(8, dtype=torch.float64), []
    for t in range(64):
        state = a[:, t].double() * state + b[:, t].double()
        expected.append(state)
    exact = torch.stack(expected, dim=1)
    return {"scan": float((states - exact).abs().max()), "reduce": float((last - exact[:, -1]).abs().max())}


def whole_tensor() -> list[float]:
    out = torch.empty(4)
    everything[(1,)](torch.arange(16.0), out, N=16)
    return out.tolist()


def nan_in_max() -> list[Any]:
    x = torch.ones(ROWS, WIDTH)
    x[0, 3], x[1, :] = float("nan"), float("nan")
    outs = [torch.empty(ROWS) for _ in range(3)] + [torch.empty(ROWS, dtype=torch.int32) for _ in range(2)]
    reduced[(1,)](x, *outs, AXIS=1, ROWS=ROWS, WIDTH=WIDTH)
    return [None if np.isnan(v) else v for v in outs[1][:3].tolist()]


def probe() -> dict[str, Any]:
    return {
        "exact": {f"{name}, axis {axis}": against_exact(name, axis) for name in DTYPES for axis in (0, 1)},
        "rounding": {name: rounding_of_sums(name) for name in ("bf16", "fp16")},
        "scans": {f"{name}, reverse={reverse}, own={own}": scans(name, reverse=reverse, own=own)
                  for name in ("bf16", "fp16", "fp32") for reverse in (False, True) for own in (False, True)},
        "recurrence": recurrences(),
        "whole": whole_tensor(),
        "nan in max": nan_in_max(),
    }
