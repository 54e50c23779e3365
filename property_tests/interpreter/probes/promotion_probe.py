"""Types, shapes and addresses of mixed operands: outputs that must not depend on how operands are brought together.

Only what the interpreter does right as it comes: fp32, integers, no loops with runtime bounds.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def shapes(X, O, s, t, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    j = tl.arange(0, N)[None, :]
    place = O + i * N + j
    size: tl.constexpr = N * N
    x = tl.load(X + i * N + j)
    row = tl.load(X + j)
    column = tl.load(X + i * N)
    tl.store(place, row * column + 1)
    tl.store(place + size, tl.where(row > column, x, 0.0))
    tl.store(place + 2 * size, tl.where(s > t, row, column))
    tl.store(place + 3 * size, s * x - t)
    tl.store(place + 4 * size, 3 - x * -2.5)
    tl.store(place + 5 * size, tl.minimum(row, s) + tl.maximum(column, 0.25))
    tl.store(place + 6 * size, tl.where((i + j) % 2 == 0, 1.0, s))
    tl.store(place + 7 * size, tl.fma(row, column, s) + tl.clamp(x, s, t))
    cube = row[:, :, None] * tl.load(X + tl.arange(0, 2)[None, None, :]) + column[:, :, None]
    tl.store(place + 8 * size, tl.sum(cube, axis=2))
    tl.store(i * N + (place - i * N) + 9 * size, -x)
    tl.store(10 * size + place, (x > 0) & (row > s) | (column < t))


@triton.jit
def integers(I, U, O, n, big, N: tl.constexpr):
    o = tl.arange(0, N)
    i = tl.load(I + o)
    u = tl.load(U + o)
    tl.store(O + o, i // 3 + i % 5 - n)
    tl.store(O + N + o, (i << 3) ^ (i >> 1) | 5)
    tl.store(O + 2 * N + o, (u // 3 + u % 7).to(tl.int64))
    tl.store(O + 3 * N + o, i * big + n)
    tl.store(O + 4 * N + o, i * 2147483647 + i)
    tl.store(O + 5 * N + o, (i > -3).to(tl.int32) * 7 + (u >= 4).to(tl.int32))
    tl.store(O + 6 * N + o, tl.cdiv(i, 4) + ~i)
    tl.store(O + 7 * N + o, (i / 4 * 1000).to(tl.int64))
    tl.store(O + 8 * N + o, tl.randint(n, o).to(tl.int64))
    tl.store(O + 9 * N + o, (tl.rand(n, o) * 1e6).to(tl.int64))
    tl.store(O + 10 * N + o, n * n - 7 // n + (n == 3))


@triton.jit
def refused(U, O, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(U + o) + -1)


@triton.jit
def mismatched(X, O, N: tl.constexpr):
    tl.store(O + tl.arange(0, N), tl.load(X + tl.arange(0, N)) + tl.load(X + tl.arange(0, 2 * N)))


def _error(launch: Any) -> bool:
    try:
        launch()
    except Exception:
        return True
    return False


def probe() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(11)
    x, out = torch.randn(64, generator=generator), torch.zeros(11, 64)
    shapes[(1,)](x, out, -0.5, 0.75, N=8)
    i = torch.randint(-100, 100, (16,), generator=generator, dtype=torch.int32)
    u = torch.randint(0, 100, (16,), generator=generator).to(torch.uint32)
    whole = torch.zeros(11, 16, dtype=torch.int64)
    integers[(1,)](i, u, whole, 3, 2**40, N=16)
    return {
        "shapes": out.tolist(), "integers": whole.tolist(),
        "negative number and unsigned": _error(lambda: refused[(1,)](u, u.clone(), N=16)),
        "shapes that do not meet": _error(lambda: mismatched[(1,)](x, out, N=8)),
    }
