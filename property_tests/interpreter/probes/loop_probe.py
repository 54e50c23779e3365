"""Loops and branches on runtime values."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def helper(x, n):
    total = x * 0
    for i in range(n):
        total += x * i
    return total


@triton.jit
def loops(X, O, start, stop, step, N: tl.constexpr):
    o = tl.arange(0, N)
    x = tl.load(X + o)
    plain = tl.zeros((N,), tl.float32)
    for i in range(start, stop, step):
        plain += x * i
    tl.store(O + o, plain)
    hinted = tl.zeros((N,), tl.float32)
    for i in tl.range(start, stop, num_stages=2):
        hinted += tl.load(X + (i * 0).to(tl.int64) + o) * i
    tl.store(O + N + o, hinted)
    fixed = tl.zeros((N,), tl.float32)
    for i in tl.static_range(3):
        fixed += x * i
    tl.store(O + 2 * N + o, fixed)
    waiting = start
    while waiting < stop:
        waiting += step
    tl.store(O + 3 * N + o, tl.zeros((N,), tl.float32) + waiting)
    tl.store(O + 4 * N + o, helper(x, stop))


@triton.jit
def branches(O, flag, N: tl.constexpr):
    o = tl.arange(0, N)
    value = tl.zeros((N,), tl.float32)
    if flag > 2:
        value += 1
        if flag == 5:
            value += 10
    else:
        value -= 1
    tl.store(O + o, value)


@triton.jit
def bounded_by_memory(LENGTHS, O, N: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(LENGTHS + row)
    count = tl.zeros((), tl.int32)
    for j in range(length):
        count += j.to(tl.int32)
    tl.store(O + row, count)


def counted() -> list[float]:
    out = torch.empty(5, 16)
    loops[(1,)](torch.ones(16), out, 2, 11, 4, N=16)
    return out[:, 0].tolist()


def branched() -> list[float]:
    found = []
    for flag in (1, 3, 5):
        out = torch.empty(16)
        branches[(1,)](out, flag, N=16)
        found.append(float(out[0]))
    return found


def from_memory() -> list[int]:
    out = torch.empty(4, dtype=torch.int32)
    bounded_by_memory[(4,)](torch.tensor([0, 1, 3, 7], dtype=torch.int32), out, N=16)
    return out.tolist()


def probe() -> dict[str, Any]:
    return {"loops": counted(), "branches": branched(), "from memory": from_memory()}
