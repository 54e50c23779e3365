"""Element-wise arithmetic against torch, ml_dtypes and exact fractions. Entries count elements that differ."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from patterns import FORMATS, Narrow, bits_of, tensor

BLOCK = 1 << 16


@triton.jit
def binary(X, Y, O, OP: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    x = tl.load(X + o)
    y = tl.load(Y + o)
    if OP == "add":
        r = x + y
    elif OP == "sub":
        r = x - y
    elif OP == "mul":
        r = x * y
    elif OP == "larger":
        r = tl.where(x > y, x, y)
    elif OP == "smallest":
        r = tl.minimum(x, y).to(x.dtype)
    tl.store(O + o, r)


@triton.jit
def equal_to_itself(X, O, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    x = tl.load(X + o)
    tl.store(O + o, (x == x).to(tl.int8))


@triton.jit
def fused(X, Y, Z, O, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(O + o, tl.fma(tl.load(X + o), tl.load(Y + o), tl.load(Z + o)))


@triton.jit
def extremes(X, Y, O, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    x = tl.load(X + o)
    y = tl.load(Y + o)
    tl.store(O + o, tl.maximum(x, y))
    tl.store(O + BLOCK + o, tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL))
    tl.store(O + 2 * BLOCK + o, tl.clamp(x, y - y, y))


@triton.jit
def scaled(X, O, scale, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(O + o, tl.load(X + o) * scale)


def _interesting(narrow: Narrow) -> np.ndarray:
    """256 patterns: both ends, around zero, one and the largest number, and random ones."""
    if narrow.numpy.itemsize == 1:
        return narrow.patterns
    ends = np.array([0, 1, 2, 0x7F, 0x80, 0x81, 0x3F80, 0x3F81, 0x3F7F, 0x3C00, 0x3C01, 0x7BFF, 0x7C00, 0x7F7F, 0x7F80, 0x7FC0,
                     0x400, 0x3FF])
    chosen = np.concatenate([ends, ends | 0x8000])
    random = np.random.default_rng(3).integers(0, 1 << 16, 256 - chosen.size)
    return np.concatenate([chosen, random]).astype(narrow.bits)


def _expected(narrow: Narrow, operation: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Patterns by ml_dtypes: one rounding of the fp32 result, exact for products and correctly rounded for sums of formats this short."""
    with np.errstate(all="ignore"):
        if operation == "add":
            return narrow.nearest(x + y)
        if operation == "sub":
            return narrow.nearest(x - y)
        if operation == "mul":
            return narrow.nearest(x * y)
        if operation == "larger":           # a choice, not a rounding: it keeps an infinity that a cast would saturate
            return np.where(x > y, x, y).astype(narrow.numpy).view(narrow.bits)
        return narrow.nearest(np.fmin(x, y))


def pairs(narrow: Narrow) -> dict[str, int]:
    """Every operation on every pair of the chosen patterns; bf16 and fp16 sums and products against torch too."""
    chosen = _interesting(narrow)
    left, right = (m.ravel() for m in np.meshgrid(chosen, chosen))
    x, y = (v.view(narrow.numpy).astype(np.float32) for v in (left, right))
    wrong = {}
    for operation in ("add", "sub", "mul", "larger", "smallest"):
        out = torch.empty(BLOCK, dtype=narrow.torch)
        a, b = tensor(left, narrow.torch), tensor(right, narrow.torch)
        binary[(1,)](a, b, out, OP=operation, BLOCK=BLOCK)
        got, expected = bits_of(out, narrow), _expected(narrow, operation, x, y)
        values, wanted = (v.view(narrow.numpy).astype(np.float32) for v in (got, expected))
        same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
        wrong[operation] = int((~same).sum())
        if narrow.numpy.itemsize == 2 and operation in ("add", "sub", "mul"):
            by_torch = getattr(torch, operation)(a, b).float()
            wrong[f"{operation}, torch"] = int((~((out.float() == by_torch) | (out.isnan() & by_torch.isnan()))).sum())
    flags = torch.empty(BLOCK, dtype=torch.int8)
    equal_to_itself[(1,)](tensor(left, narrow.torch), flags, BLOCK=BLOCK)
    wrong["equal to itself"] = int((flags.numpy() != (x == x)).sum())
    return wrong


def _fma_problems(dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    """Random products, most of them nearly cancelled by the addend, some next to a halfway point."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, generator=generator, dtype=torch.float64)
    y = torch.randn(count, generator=generator, dtype=torch.float64) * 2.0 ** torch.randint(-12, 12, (count,), generator=generator)
    x, y = x.to(dtype), y.to(dtype)
    product = x.double() * y.double()
    far = torch.randn(count, generator=generator, dtype=torch.float64) * 2.0 ** torch.randint(-24, 24, (count,), generator=generator)
    kind = torch.arange(count) % 4
    z = torch.where(kind == 0, -product, torch.where(kind == 1, product * 2.0**10, torch.where(kind == 2, far, -product * (1 + 2.0**-9))))
    largest = torch.finfo(dtype).max
    return [x, y, z.clamp(-largest, largest).to(dtype)]


def _rounded(exact: Fraction, narrow_values: np.ndarray | None, dtype: np.dtype) -> float:
    """The fraction rounded to nearest even: by a search in the format's values, or by the float type's own neighbours."""
    if narrow_values is not None:
        largest, second = (Fraction(float(v)) for v in narrow_values[-1:-3:-1])
        if abs(exact) >= largest + (largest - second) / 2:
            return float("inf") if exact > 0 else -float("inf")
        place = int(np.searchsorted(narrow_values, float(exact)))
        near = range(max(place - 2, 0), min(place + 2, len(narrow_values)))
        return float(min((narrow_values[i] for i in near), key=lambda v: (abs(Fraction(float(v)) - exact), _mantissa_is_odd(v, dtype))))
    guess = dtype.type(float(exact))
    near3 = [np.nextafter(guess, dtype.type(-np.inf)), guess, np.nextafter(guess, dtype.type(np.inf))]
    return float(min(near3, key=lambda v: (abs(Fraction(float(v)) - exact), _mantissa_is_odd(v, dtype))))


def _mantissa_is_odd(value: Any, dtype: np.dtype) -> bool:
    return bool(int(np.array(value).astype(dtype).view(np.dtype(f"uint{8 * dtype.itemsize}"))) & 1)


def fused_wrong(dtype: torch.dtype, name: str, count: int = 1024) -> int:
    x, y, z = _fma_problems(dtype, count)
    out = torch.empty(count, dtype=dtype)
    fused[(1,)](x, y, z, out, BLOCK=count)
    narrow = FORMATS.get(name)
    values = None if narrow is None else narrow.values
    kind = np.dtype(np.float32) if name == "fp32" else np.dtype(np.float64) if narrow is None else narrow.numpy
    triples = zip(x.double().tolist(), y.double().tolist(), z.double().tolist(), strict=True)
    exact = [Fraction(a) * Fraction(b) + Fraction(c) for a, b, c in triples]
    wanted = [_rounded(e, values, kind) for e in exact]
    return sum(got != want for got, want in zip(out.double().tolist(), wanted, strict=True))


def separately_rounded() -> int:
    """How many of the fp32 problems a product rounded before the sum gets wrong: the test sees the difference."""
    x, y, z = _fma_problems(torch.float32, 1024)
    out = torch.empty(1024)
    fused[(1,)](x, y, z, out, BLOCK=1024)
    return int((out != x * y + z).sum())


def nan_choices() -> dict[str, list[float | None]]:
    """maximum, minimum (NaN propagated) and clamp where an operand is NaN; None stands for NaN."""
    nan = float("nan")
    x = torch.tensor([nan, 1.0, nan, 2.0] * 4)
    y = torch.tensor([3.0, nan, nan, 1.0] * 4)
    out = torch.empty(48)
    extremes[(1,)](x, y, out, BLOCK=16)
    rows = [[None if v != v else v for v in row[:4].tolist()] for row in out.view(3, 16)]
    return {"maximum": rows[0], "minimum, propagating": rows[1], "clamp": rows[2]}


def scalar_promotion() -> dict[str, Any]:
    """A float argument is an fp32 scalar, so that bf16 times it is computed and rounded as the device does."""
    x = torch.randn(256, generator=torch.Generator().manual_seed(1)).bfloat16()
    out = torch.empty(256)
    scaled[(1,)](x, out, 1 / 3, BLOCK=256)
    return {"bf16 times float argument": int((out != x.float() * torch.tensor(1 / 3)).sum())}


def probe() -> dict[str, Any]:
    kinds = (("fp32", torch.float32), ("fp64", torch.float64), ("fp16", torch.float16), ("bf16", torch.bfloat16))
    return {
        "pairs": {name: pairs(narrow) for name, narrow in FORMATS.items()},
        "fma": {name: fused_wrong(dtype, name) for name, dtype in kinds},
        "fma rounded twice": separately_rounded(),
        "nan": nan_choices(),
        "promotion": scalar_promotion(),
    }
